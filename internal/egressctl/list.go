package egressctl

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl/output"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl/state"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

const listHelp = `List the instances that this egressctl made, of every entry or of the one of --entry.

An entry lists all its hosts or none: where a host does not answer, the entry's instances are missing, the
error says so, and the exit code is not 0. An instance in state Recorded is known here but not listed by
its host: its create did not come far, or someone removed it. Go on with "egressctl create NAME" or forget
it with "egressctl delete NAME".`

const listExample = `  egressctl list
  egressctl list --entry kvm2-home -o json | jq -r '.instances[] | select(.state == "Running") | .address'`

func (r *runner) listCommand() *cobra.Command {
	var limit time.Duration
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the instances",
		Long:    listHelp,
		Example: listExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := r.limited(cmd, limit)
			defer cancel()
			return r.list(ctx)
		},
	}
	cmd.Flags().DurationVar(&limit, "timeout", time.Minute, "give up after this `DURATION`")
	return cmd
}

// listResult is what list prints for scripts.
type listResult struct {
	Instances []view      `json:"instances"`
	Errors    []listError `json:"errors"`
}

// listError says why an entry's instances are missing.
type listError struct {
	Entry   string `json:"entry"`
	Message string `json:"message"`
}

func (r *runner) list(ctx context.Context) error {
	conf, err := r.loadConfig()
	if err != nil {
		return err
	}
	dir, err := r.openState()
	if err != nil {
		return err
	}
	entries, broken, err := conf.selected(r.entryName)
	if err != nil {
		return err
	}
	records, recordErr := dir.List()

	lists := make([]entryList, len(entries))
	var wg sync.WaitGroup
	for i, entry := range entries {
		wg.Go(func() { lists[i] = r.listEntry(ctx, conf, entry, dir, records) })
	}
	wg.Wait()
	if interrupted(ctx) {
		return fail(CodeInterrupted, "interrupted")
	}
	lists = slices.Concat(lists, unusable(conf.path, broken))
	if err := r.printList(lists); err != nil {
		return err
	}
	return firstOf(append(errorsOf(lists), local(recordErr)))
}

// unusable gives the lists that broken entries do not have.
func unusable(path string, broken []provider.BrokenEntry) []entryList {
	var out []entryList
	for _, b := range broken {
		out = append(out, entryList{entry: b.Name, err: fail(CodeUsage, "%s: %w", path, b)})
	}
	return out
}

// entryList is what one entry said.
type entryList struct {
	entry string
	views []view
	err   error
}

func (r *runner) listEntry(ctx context.Context, conf *configuration, entry provider.Entry, dir *state.Dir, records []*state.Record) entryList {
	out := entryList{entry: entry.Name}
	t, err := r.build(ctx, conf, entry, dir)
	if err != nil {
		out.err = err
		return out
	}
	instances, err := t.provider.ListByTag(ctx)
	if err != nil {
		out.err = errors.Join(refused(place{entry: entry.Name}, "list", err), t.close())
		return out
	}
	out.views = joined(entry.Name, addressed(ctx, t.provider, instances), records)
	out.err = t.close()
	return out
}

// joined gives the views of an entry's instances, and of the records that none of them belongs to.
func joined(entry string, instances []provider.Instance, records []*state.Record) []view {
	byName := map[string]*state.Record{}
	for _, rec := range records {
		if rec.Entry == entry {
			byName[rec.InstanceName] = rec
		}
	}
	var out []view
	for _, inst := range instances {
		out = append(out, viewOf(entry, inst, byName[inst.Name]))
		delete(byName, inst.Name)
	}
	for _, rec := range byName {
		out = append(out, recordedView(rec))
	}
	slices.SortFunc(out, func(a, b view) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	return out
}

func (r *runner) printList(lists []entryList) error {
	result := listResult{Instances: []view{}, Errors: []listError{}}
	for _, l := range lists {
		result.Instances = append(result.Instances, l.views...)
		if l.err != nil {
			result.Errors = append(result.Errors, listError{l.entry, output.Clean(l.err.Error())})
		}
	}
	if r.format.Structured() {
		return local(output.Structure(r.Out, r.format, result))
	}
	header := []string{"NAME", "STATE", "ADDRESS", "ZONE", "ENTRY", "AGE", "ID"}
	if r.format == output.FormatWide {
		header = append(header, "MACHINE-TYPE", "IMAGE", "MAC", "PROXY-URL")
	}
	now := time.Now()
	rows := make([][]string, 0, len(result.Instances))
	for i := range result.Instances {
		rows = append(rows, result.Instances[i].row(now, r.format == output.FormatWide))
	}
	return local(output.Table(r.Out, header, rows))
}

func (v *view) row(now time.Time, wide bool) []string {
	age := ""
	if v.CreatedAt != nil {
		age = output.Age(now, *v.CreatedAt)
	}
	row := []string{v.Name, v.State, v.Address, v.Zone, v.Entry, age, v.ID}
	if wide {
		mac := ""
		if len(v.MACs) > 0 {
			mac = v.MACs[0]
		}
		row = append(row, v.MachineType, v.Image, mac, v.ProxyURL)
	}
	return row
}

func errorsOf(lists []entryList) []error {
	out := make([]error, 0, len(lists))
	for _, l := range lists {
		out = append(out, l.err)
	}
	return out
}

// firstOf makes one failure of several: the first one's code, every one's sentence.
func firstOf(errs []error) error {
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	}
	texts := make([]string, len(errs))
	for i, err := range errs {
		texts[i] = err.Error()
	}
	return &failure{code: asFailure(errs[0]).code, err: renamed{err: errs[0], text: strings.Join(texts, "; ")}}
}
