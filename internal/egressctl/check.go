package egressctl

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl/output"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

const checkHelp = `Check the providers file and every host in it, of every entry or of the one of --entry, all at the same
time. Nothing is changed on a host. It needs no state directory.

Beside the way in, libvirt and the pool it looks for what would only show when the first VM starts: firmware,
virtualization, bridge, room, clock. Each finding comes with what mends it. An Error makes the host not
ready; a Warning or a Note does not.

The exit code is 0 when all is well, 8 when a host is not ready, 2 when there is a problem in the file;
the entries without one are checked all the same.`

const checkExample = `  egressctl check
  egressctl check -o wide              # with what the hosts say of themselves
  egressctl check --entry kvm2-home -o json | jq '.hosts[] | select(.ready | not)'`

func (r *runner) checkCommand() *cobra.Command {
	var limit time.Duration
	cmd := &cobra.Command{
		Use:     "check",
		Short:   "Check the providers file and the hosts",
		Long:    checkHelp,
		Example: checkExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := r.limited(cmd, limit)
			defer cancel()
			return r.check(ctx)
		},
	}
	cmd.Flags().DurationVar(&limit, "timeout", 30*time.Second, "give up after this `DURATION`; hosts that have not answered by then are not ready")
	return cmd
}

// checkResult is what check prints for scripts.
type checkResult struct {
	Ready    bool           `json:"ready"`
	Hosts    []hostResult   `json:"hosts"`
	Problems []checkProblem `json:"problems"`
}

type hostResult struct {
	Entry          string            `json:"entry"`
	Host           string            `json:"host"`
	Ready          bool              `json:"ready"`
	Reason         string            `json:"reason"`
	Message        string            `json:"message"`
	LatencySeconds float64           `json:"latencySeconds"`
	Details        []provider.Detail `json:"details"`
	// Findings of a closer look, the worst first.
	Findings []provider.Finding `json:"findings"`
	latency  time.Duration
}

// checkProblem is one problem of the providers file.
type checkProblem struct {
	Entry   string `json:"entry,omitempty"`
	Path    string `json:"path"`
	Message string `json:"message"`
}

func (r *runner) check(ctx context.Context) error {
	conf, err := r.loadConfig()
	if err != nil {
		return err
	}
	entries, broken, err := conf.selected(r.entryName)
	if err != nil {
		return err
	}
	hosts, err := r.checkHosts(ctx, entries)
	if err != nil {
		return err
	}
	if interrupted(ctx) {
		return fail(CodeInterrupted, "interrupted")
	}
	result := checkResult{Hosts: hosts, Problems: problemsOf(broken)}
	unready := result.unready()
	result.Ready = len(unready) == 0 && len(result.Problems) == 0
	if err := r.printCheck(result); err != nil {
		return err
	}
	return result.verdict(conf.path, unready)
}

// checkHosts asks all entries at once, and gives their hosts in the file's order.
func (r *runner) checkHosts(ctx context.Context, entries []provider.Entry) ([]hostResult, error) {
	results := make([][]hostResult, len(entries))
	errs := make([]error, len(entries))
	var wg sync.WaitGroup
	for i, entry := range entries {
		wg.Go(func() { results[i], errs[i] = r.checkEntry(ctx, entry) })
	}
	wg.Wait()
	all := []hostResult{}
	for _, hosts := range results {
		all = append(all, hosts...)
	}
	return all, firstOf(errs)
}

func (r *runner) checkEntry(ctx context.Context, entry provider.Entry) ([]hostResult, error) {
	t, err := r.inspector(entry)
	if err != nil {
		return nil, err
	}
	checker, ok := provider.As[provider.Checker](t.provider)
	if !ok {
		return []hostResult{{Entry: entry.Name, Ready: true, Reason: "NotChecked",
			Message: "providers of type " + entry.Type + " have no check", Details: []provider.Detail{}, Findings: []provider.Finding{}}}, t.close()
	}
	closer := r.lookCloser(ctx, t)
	var out []hostResult
	for _, h := range checker.Check(ctx) {
		result := hostResult{
			Entry: entry.Name, Host: h.Host, Ready: h.Ready, Reason: h.Reason, Message: output.Clean(h.Message),
			LatencySeconds: h.Latency.Seconds(), Details: append([]provider.Detail{}, h.Details...), latency: h.Latency,
		}
		if found, ok := closer[h.Host]; ok {
			result.addDiagnosis(<-found)
		}
		out = append(out, result)
	}
	return out, t.close()
}

func problemsOf(broken []provider.BrokenEntry) []checkProblem {
	out := []checkProblem{}
	for _, b := range broken {
		for _, p := range b.Problems {
			out = append(out, checkProblem{Entry: b.Name, Path: p.Path, Message: p.Message})
		}
	}
	return out
}

// unready names the hosts that are not ready.
func (c checkResult) unready() []string {
	var out []string
	for _, h := range c.Hosts {
		if !h.Ready {
			out = append(out, fmt.Sprintf("%s of %s (%s)", h.Host, h.Entry, h.Reason))
		}
	}
	return out
}

// verdict is the failure that the result amounts to, or nil.
func (c checkResult) verdict(path string, unready []string) error {
	var parts []string
	code := CodeNotReady
	for _, p := range c.Problems {
		code = CodeUsage
		parts = append(parts, strings.TrimPrefix(p.Path+": "+p.Message, ": "))
	}
	if code == CodeUsage {
		parts = []string{path + ": " + strings.Join(parts, "; ")}
	}
	if len(unready) > 0 {
		parts = append(parts, "not ready: "+listing(unready))
	}
	if parts == nil {
		return nil
	}
	return fail(code, "%s", strings.Join(parts, "; "))
}

func (r *runner) printCheck(result checkResult) error {
	if r.format.Structured() {
		return local(output.Structure(r.Out, r.format, result))
	}
	header := []string{"ENTRY", "HOST", "READY", "REASON", "LATENCY", "MESSAGE"}
	wide := r.format == output.FormatWide
	if wide {
		header = append(header, "DETAILS")
	}
	rows := make([][]string, 0, len(result.Hosts))
	for _, h := range result.Hosts {
		rows = append(rows, h.row(wide))
	}
	if err := output.Table(r.Out, header, rows); err != nil {
		return local(err)
	}
	return r.printFindings(result.Hosts)
}

func (h *hostResult) row(wide bool) []string {
	ready := "no"
	if h.Ready {
		ready = "yes"
	}
	row := []string{h.Entry, h.Host, ready, h.Reason, h.latency.Round(time.Millisecond).String(), h.Message}
	if wide {
		details := make([]string, 0, len(h.Details))
		for _, d := range h.Details {
			details = append(details, d.Key+"="+d.Value)
		}
		row = append(row, strings.Join(details, " "))
	}
	return row
}
