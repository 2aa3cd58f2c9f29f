package conformance

import (
	"fmt"
	"slices"
)

// Axes are a provider's codes by axis, as in the contract's section 4.20.
type Axes map[string]string

// axisCodes is the table of the contract's section 4.20; contract-check compares them.
var axisCodes = map[string][]string{
	"create-return":       {"blocking", "asynchronous"},
	"provisioning-state":  {"create-blocks", "backend-state", "task"},
	"child-spans":         {"span-decorator", "client-instrumented", "none"},
	"quota":               {"detected", "reported", "configured", "none"},
	"credentials":         {"mounted-files", "exchanged", "ambient", "none"},
	"client-kind":         {"rpc-over-ssh", "http-api", "sdk", "in-process"},
	"gc-mark":             {"written-metadata", "tags", "description-text", "lease-record"},
	"created-at":          {"written-at-create", "backend-native", "none"},
	"ip-source":           {"discovered", "assigned", "configured"},
	"list-partial":        {"fail-whole", "single-query", "paged"},
	"not-found":           {"error-code", "http-status", "message-text", "own-record"},
	"delete-return":       {"waits", "resumed"},
	"secondary-resources": {"explicit", "cascade", "none"},
	"timeouts":            {"per-call", "per-task", "caller-only"},
	"logging":             {"tiered", "outcome-only"},
	"backend-test":        {"integration-tag", "emulator", "none"},
}

// AxisCodes gives the codes of each axis.
func AxisCodes() map[string][]string { return axisCodes }

// problem says what is missing or unknown, or "".
func (a Axes) problem() string {
	for axis, codes := range axisCodes {
		if !slices.Contains(codes, a[axis]) {
			return fmt.Sprintf("axis %s has the code %q, which is none of %q", axis, a[axis], codes)
		}
	}
	for axis := range a {
		if axisCodes[axis] == nil {
			return "there is no axis " + axis
		}
	}
	return ""
}
