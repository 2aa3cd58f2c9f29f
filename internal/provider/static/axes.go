package static

// Axes are the codes of docs/static-provider-spec.md.
func Axes() map[string]string {
	return map[string]string{
		"create-return": "blocking", "provisioning-state": "create-blocks", "child-spans": "none", "quota": "configured",
		"credentials": "none", "client-kind": "in-process", "gc-mark": "lease-record", "created-at": "written-at-create",
		"ip-source": "configured", "list-partial": "fail-whole", "not-found": "own-record", "delete-return": "waits",
		"secondary-resources": "explicit", "timeouts": "per-call", "logging": "outcome-only", "backend-test": "none",
	}
}
