package egressctl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl/output"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl/state"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

const renderHelp = `Print what create would send: the VM's definition and its user-data. No host is touched and nothing is
recorded. For a recorded instance it is what that was made from; flags change it in the output only.

The user-data of an instance has no password, only bcrypt hashes, but they too are hidden unless you give
--show-secrets. So is all of a --user-data-file.

` + proxyFlagsHelp

const renderExample = `  egressctl render berlin-1 --allow-source 198.51.100.0/24
  egressctl render berlin-1 --document domain.xml | virt-xml-validate -
  egressctl render berlin-1 --show-secrets -o json | jq -r '.documents[].name'`

func (r *runner) renderCommand() *cobra.Command {
	f := &renderFlags{}
	cmd := &cobra.Command{
		Use:               "render NAME",
		Short:             "Print what create would send, without touching a host",
		Long:              renderHelp,
		Example:           renderExample,
		Args:              oneName,
		ValidArgsFunction: r.completeNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := r.limited(cmd, time.Minute)
			defer cancel()
			return r.renderInstance(ctx, args[0], f)
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&f.showSecrets, "show-secrets", false, "show hashes and user-data as they are")
	cmd.Flags().StringVar(&f.document, "document", "", "print the document of this `NAME` only, as it is")
	return cmd
}

type renderFlags struct {
	proxyFlags
	showSecrets bool
	document    string
}

// renderResult is what render prints for scripts.
type renderResult struct {
	Name      string     `json:"name"`
	Entry     string     `json:"entry"`
	Documents []document `json:"documents"`
}

type document struct {
	Name    string `json:"name"`
	Content string `json:"content"`
}

func (r *runner) renderInstance(ctx context.Context, name string, f *renderFlags) (err error) {
	t, err := r.open(ctx, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	renderer, ok := provider.As[provider.Renderer](t.provider)
	if !ok {
		return fail(CodeUsage, "%s: providers of type %s cannot render", t.entry.Name, t.entry.Type)
	}
	rec, err := r.renderRecord(ctx, t, name, f)
	if err != nil {
		return err
	}
	documents, err := renderer.Render(t.request(rec))
	if err != nil {
		return refused(t.place(rec), "render "+name, err)
	}
	result := renderResult{Name: name, Entry: t.entry.Name, Documents: []document{}}
	for _, d := range documents {
		if !f.showSecrets {
			d.Content = hideSecrets(d.Content, rec)
		}
		result.Documents = append(result.Documents, document(d))
	}
	return r.printRender(result, f.document)
}

// renderRecord is what create would record.
func (r *runner) renderRecord(ctx context.Context, t *target, name string, f *renderFlags) (*state.Record, error) {
	prior, err := t.load(name)
	if err != nil {
		return nil, err
	}
	d, err := r.draft(ctx, t, &f.proxyFlags, prior)
	if err != nil {
		return nil, err
	}
	if prior != nil && len(d.changes(prior)) == 0 {
		return prior, nil
	}
	if d.inputs.AuthUser != "" && !d.password.given() && (prior == nil || prior.PasswordHash == "") {
		d.password.generate = true // to look at the output, any hash will do
	}
	return d.record(t, name, prior)
}

func (r *runner) printRender(result renderResult, only string) error {
	if only != "" {
		return r.printDocument(result, only)
	}
	if r.format.Structured() {
		return local(output.Structure(r.Out, r.format, result))
	}
	var b bytes.Buffer
	for i, d := range result.Documents {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "==> %s <==\n%s", d.Name, d.Content)
		if !bytes.HasSuffix(b.Bytes(), []byte("\n")) {
			b.WriteByte('\n')
		}
	}
	_, err := r.Out.Write(b.Bytes())
	return local(err)
}

func (r *runner) printDocument(result renderResult, name string) error {
	names := make([]string, 0, len(result.Documents))
	for _, d := range result.Documents {
		if d.Name == name {
			_, err := fmt.Fprint(r.Out, d.Content)
			return local(err)
		}
		names = append(names, d.Name)
	}
	return fail(CodeUsage, "there is no document %q: there are %s", name, listing(names))
}
