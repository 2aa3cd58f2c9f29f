package kvm2

// Axes are this provider's codes in the table of the contract's section 4.20, as its spec gives them.
func Axes() map[string]string {
	return map[string]string{
		"create-return": "blocking", "provisioning-state": "create-blocks", "child-spans": "span-decorator", "quota": "detected",
		"credentials": "mounted-files", "client-kind": "rpc-over-ssh", "gc-mark": "written-metadata", "created-at": "written-at-create",
		"ip-source": "discovered", "list-partial": "fail-whole", "not-found": "error-code", "delete-return": "waits",
		"secondary-resources": "explicit", "timeouts": "per-call", "logging": "tiered", "backend-test": "integration-tag",
	}
}
