package egressctl

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl/output"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

const imagesHelp = `List the base images on each host, of every entry or of the one of --entry: what they are, how much room
they take, and who uses them, whoever that is.

States: Ready is whole and verified, and used by the next create. Writing is not finished, and young enough
that a transfer may be at it. Left is what an interrupted transfer left.

--remove-unused shows what would be removed: images that no disk and no VM of anybody stands on, and that
nobody writes. With --yes it removes them, and asks again right before each whether it is still unused.
A create that wants a removed image brings it to the host again. A disk that lies in no storage pool and
belongs to a VM that is off is not seen.`

const imagesExample = `  egressctl images
  egressctl images -o wide             # with URL, checksum and volume
  egressctl images --remove-unused     # what would go
  egressctl images --remove-unused --yes --entry kvm2-home`

// imagesFlags are images' own.
type imagesFlags struct {
	removeUnused, yes bool
	limit             time.Duration
}

func (r *runner) imagesCommand() *cobra.Command {
	f := &imagesFlags{}
	cmd := &cobra.Command{
		Use:     "images",
		Short:   "List the base images on the hosts, remove those that nobody uses",
		Long:    imagesHelp,
		Example: imagesExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.yes && !f.removeUnused {
				return fail(CodeUsage, "--yes goes with --remove-unused")
			}
			ctx, cancel := r.limited(cmd, f.limit)
			defer cancel()
			return r.images(ctx, f)
		},
	}
	cmd.Flags().BoolVar(&f.removeUnused, "remove-unused", false, "show what would be removed, and with --yes remove it")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "really remove")
	cmd.Flags().DurationVar(&f.limit, "timeout", 2*time.Minute, "give up after this `DURATION`")
	return cmd
}

// imagesResult is what images prints for scripts.
type imagesResult struct {
	Images []imageView `json:"images"`
	Errors []hostError `json:"errors"`
}

// imageView is one base image of one host.
type imageView struct {
	Entry string `json:"entry"`
	Host  string `json:"host"`
	provider.BaseImage
	// Removable says that --remove-unused would take it; Removed that it did.
	Removable bool `json:"removable"`
	Removed   bool `json:"removed"`
}

// hostError says why a host's images are missing, or why one of them is still there.
type hostError struct {
	Entry   string `json:"entry"`
	Host    string `json:"host"`
	Message string `json:"message"`
	err     error
}

func (r *runner) images(ctx context.Context, f *imagesFlags) error {
	conf, err := r.loadConfig()
	if err != nil {
		return err
	}
	entries, broken, err := conf.selected(r.entryName)
	if err != nil {
		return err
	}
	results := make([]imagesResult, len(entries))
	var wg sync.WaitGroup
	for i, entry := range entries {
		wg.Go(func() { results[i] = r.imagesOf(ctx, entry, f) })
	}
	wg.Wait()
	if interrupted(ctx) {
		return fail(CodeInterrupted, "interrupted")
	}
	all := imagesResult{Images: []imageView{}, Errors: []hostError{}}
	for _, res := range results {
		all.Images, all.Errors = append(all.Images, res.Images...), append(all.Errors, res.Errors...)
	}
	for _, b := range broken {
		all.addError(b.Name, "", fail(CodeUsage, "%s: %w", conf.path, b))
	}
	if err := r.printImages(all, f); err != nil {
		return err
	}
	errs := make([]error, 0, len(all.Errors))
	for _, e := range all.Errors {
		errs = append(errs, e.err)
	}
	return firstOf(errs)
}

// imagesOf asks the hosts of one entry, all at once.
func (r *runner) imagesOf(ctx context.Context, entry provider.Entry, f *imagesFlags) (out imagesResult) {
	t, err := r.inspector(entry)
	if err != nil {
		out.addError(entry.Name, "", err)
		return out
	}
	keeper, ok := provider.As[provider.ImageKeeper](t.provider)
	if !ok {
		return out
	}
	zones := choicesOf(entry).zones
	results := make([]imagesResult, len(zones))
	var wg sync.WaitGroup
	for i, zone := range zones {
		wg.Go(func() { results[i] = imagesOn(ctx, keeper, place{entry.Name, zone}, f) })
	}
	wg.Wait()
	for _, res := range results {
		out.Images, out.Errors = append(out.Images, res.Images...), append(out.Errors, res.Errors...)
	}
	if err := t.close(); err != nil {
		out.addError(entry.Name, "", err)
	}
	return out
}

// imagesOn lists the images of one host, and removes those that may go where that is asked for.
func imagesOn(ctx context.Context, keeper provider.ImageKeeper, at place, f *imagesFlags) (out imagesResult) {
	found, err := keeper.Images(ctx, at.host)
	if err != nil {
		out.addError(at.entry, at.host, refused(at, "list the images", err))
		return out
	}
	for _, img := range found {
		v := imageView{Entry: at.entry, Host: at.host, BaseImage: img, Removable: img.Removable()}
		if f.yes && v.Removable {
			err := keeper.RemoveImage(ctx, at.host, img.Name)
			if v.Removed = err == nil; err != nil {
				out.addError(at.entry, at.host, refused(at, "remove the image "+img.Name, err))
			}
		}
		out.Images = append(out.Images, v)
	}
	return out
}

func (res *imagesResult) addError(entry, host string, err error) {
	res.Errors = append(res.Errors, hostError{entry, host, output.Clean(err.Error()), err})
}

func (r *runner) printImages(result imagesResult, f *imagesFlags) error {
	if r.format.Structured() {
		return local(output.Structure(r.Out, r.format, result))
	}
	header := []string{"ENTRY", "HOST", "IMAGE", "SIZE", "STATE", "USED BY", "CHANGED"}
	wide := r.format == output.FormatWide
	if wide {
		header = append(header, "URL", "SHA256", "VOLUME")
	}
	if f.removeUnused {
		header = append(header, "REMOVAL")
	}
	rows := make([][]string, 0, len(result.Images))
	for _, v := range result.Images {
		row := v.row(wide)
		if f.removeUnused {
			row = append(row, v.removal(f.yes))
		}
		rows = append(rows, row)
	}
	if err := output.Table(r.Out, header, rows); err != nil {
		return local(err)
	}
	if f.removeUnused && !f.yes && slices.ContainsFunc(result.Images, func(v imageView) bool { return v.Removable }) {
		r.hint("Nothing was removed. Remove them with --yes.")
	}
	return nil
}

func (v imageView) row(wide bool) []string {
	name := "not configured"
	if len(v.Images) > 0 {
		name = listing(v.Images)
	}
	users := strconv.Itoa(len(v.UsedBy)) + " disks and VMs"
	switch len(v.UsedBy) {
	case 0:
		users = "nobody"
	case 1, 2:
		users = listing(v.UsedBy)
	}
	row := []string{v.Entry, v.Host, name, output.Bytes(int64(v.SizeBytes)), string(v.State), users, output.Age(time.Now(), v.ModifiedAt)} //nolint:gosec // a size fits
	if wide {
		row[5] = listing(v.UsedBy)
		row = append(row, v.URL, v.SHA256, v.Name)
	}
	return row
}

// removal says what --remove-unused did or would do.
func (v imageView) removal(yes bool) string {
	switch {
	case v.Removed:
		return "removed"
	case !v.Removable:
		return "stays"
	case yes:
		return "failed"
	}
	return "would go"
}

// inspector makes the provider of an entry for looks at its hosts that touch no instance. It needs no
// identity, so no state directory: the one that it has owns nothing.
func (r *runner) inspector(entry provider.Entry) (*target, error) {
	const owner = "egressctl-inspector"
	p, err := r.Registry.New(entry, provider.Options{Owner: owner, Log: r.log})
	if err != nil {
		return nil, &failure{code: CodeUsage, err: err}
	}
	return &target{entry: entry, owner: owner, provider: p}, nil
}
