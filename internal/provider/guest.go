package provider

import "context"

// GuestReporter is optional: what the first-boot work in the guest (cloud-init) ended with, asked of
// the guest itself.
type GuestReporter interface {
	// GuestReport asks the guest. It costs the guest and the host more than a Get: ask when something is
	// late, not in each look. A guest that does not tell is GuestUnknown, not an error (R2.14.2). It
	// returns the class and reason of Get's error where Get would return one (R2.14.1). The report holds
	// names and states only, nothing that the guest's programs printed (R8.3.7).
	GuestReport(ctx context.Context, id string) (GuestReport, error)
}

// GuestState is how far the first-boot work in a guest is.
type GuestState string

// The states of a guest's first-boot work.
const (
	// GuestUnknown: the guest does not tell.
	GuestUnknown GuestState = "Unknown"
	// GuestRunning: it is under way.
	GuestRunning GuestState = "Running"
	// GuestDone: it ended without an error.
	GuestDone GuestState = "Done"
	// GuestFailed: it ended with errors.
	GuestFailed GuestState = "Failed"
)

// GuestReport is what a guest says of its first-boot work.
type GuestReport struct {
	State GuestState `json:"state"`
	// Stage that is under way, where the state is GuestRunning.
	Stage string `json:"stage,omitempty"`
	// Failed names what ended with an error, as "stage" or "stage/module"; at most 16 of them.
	Failed []string `json:"failed,omitempty"`
	// Message is one sentence for people.
	Message string `json:"message"`
}
