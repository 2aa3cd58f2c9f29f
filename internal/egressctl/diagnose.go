package egressctl

import (
	"context"
	"fmt"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl/output"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// diagnosis is the closer look at one host.
type diagnosis struct {
	findings []provider.Finding
	err      error
}

// lookCloser begins the closer looks at an entry's hosts, beside the check. Each host's channel gives one
// result; a host that it does not have gives none at once.
func (r *runner) lookCloser(ctx context.Context, t *target) map[string]chan diagnosis {
	out := map[string]chan diagnosis{}
	diagnoser, ok := provider.As[provider.Diagnoser](t.provider)
	for _, zone := range choicesOf(t.entry).zones {
		result := make(chan diagnosis, 1)
		out[zone] = result
		if !ok {
			close(result)
			continue
		}
		go func() {
			defer close(result)
			findings, err := diagnoser.Diagnose(ctx, zone)
			result <- diagnosis{findings, err}
		}()
	}
	return out
}

// addDiagnosis takes up the closer look. One that failed tells something only where the check did not.
func (h *hostResult) addDiagnosis(d diagnosis) {
	h.Findings = append([]provider.Finding{}, d.findings...)
	if d.err != nil && h.Ready {
		h.Findings = append(h.Findings, provider.Finding{
			Severity: provider.SeverityNote, Reason: provider.ReasonOf(d.err),
			Message: "host " + h.Host + " could not be looked at closer: " + unnamed(h.Entry, d.err).Error(), Remedy: "run the check again",
		})
	}
	for _, f := range h.Findings {
		if f.Severity == provider.SeverityError && h.Ready {
			h.Ready, h.Reason, h.Message = false, f.Reason, output.Clean(f.Message)
		}
	}
}

// printFindings lists what the closer looks found below the table of hosts.
func (r *runner) printFindings(hosts []hostResult) error {
	var rows [][]string
	for _, h := range hosts {
		for _, f := range h.Findings {
			rows = append(rows, []string{h.Entry, h.Host, string(f.Severity), f.Reason, f.Message, f.Remedy})
		}
	}
	if rows == nil {
		return nil
	}
	if _, err := fmt.Fprintln(r.Out); err != nil {
		return local(err)
	}
	return local(output.Table(r.Out, []string{"ENTRY", "HOST", "SEVERITY", "REASON", "FOUND", "REMEDY"}, rows))
}
