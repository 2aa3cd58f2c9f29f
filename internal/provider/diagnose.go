package provider

import "context"

// Diagnoser is optional: a closer look at one host than Check takes, for a person who wants to know
// before the first Create what would go wrong. Check stays what a controller can afford every minute.
type Diagnoser interface {
	// Diagnose gives what it found, the worst first; none means that nothing is known to be wrong. It
	// changes nothing (R2.15.2). What cannot be found out on this host is a finding of SeverityNote. An
	// error says that the host could not be asked; an unknown zone is ErrPermanent with
	// ReasonUnknownZone.
	Diagnose(ctx context.Context, zone string) ([]Finding, error)
}

// Finding is one thing that is wrong with a host, or that could not be found out.
type Finding struct {
	Severity Severity `json:"severity"`
	// Reason is CamelCase.
	Reason string `json:"reason"`
	// Message is one sentence that names the host.
	Message string `json:"message"`
	// Remedy is the command, or the setting, that mends it.
	Remedy string `json:"remedy"`
}

// Severity of a finding.
type Severity string

// Severities, the worst first.
const (
	// SeverityError: a Create on the host will fail.
	SeverityError Severity = "Error"
	// SeverityWarning: a Create works, and not as one would like.
	SeverityWarning Severity = "Warning"
	// SeverityNote: it could not be found out.
	SeverityNote Severity = "Note"
)
