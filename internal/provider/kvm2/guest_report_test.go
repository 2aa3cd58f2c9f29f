package kvm2

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/digitalocean/go-libvirt"
	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// statusJSON is cloud-init's status file as version 25.1 on Debian 13 writes it, with a stage and the errors
// of its last stage.
func statusJSON(stage, finished, errs string) string {
	done := `{"errors": [], "finished": 12.5, "recoverable_errors": {}, "start": 11.5}`
	return fmt.Sprintf(`{"v1": {"datasource": "DataSourceNoCloud [seed=/dev/vdb]", "init": %s, "init-local": %s, "modules-config": %s,
 "modules-final": {"errors": [%s], "finished": %s, "recoverable_errors": {}, "start": 20.0}, "stage": %s}}`, done, done, done, errs, finished, stage)
}

// told is a rig with an instance whose agent has the file.
func told(t *testing.T, content string) *rig {
	t.Helper()
	r := created(t)
	r.host.withDomain(testName, func(d *fakeDomain) {
		d.agentConnected = true
		d.ga.files = map[string]string{cloudInitStatus: content}
	})
	return r
}

func TestGuestReport_states(t *testing.T) {
	const runcmd = `"('runcmd', ProcessExecutionError(\"Command: ['curl', '-u', 'alice:hunter2']\"))"`
	tests := map[string]struct {
		content string
		want    provider.GuestReport
	}{
		"done":    {statusJSON("null", "30.5", ""), provider.GuestReport{State: provider.GuestDone, Message: "cloud-init is done"}},
		"running": {statusJSON(`"modules-final"`, "null", ""), provider.GuestReport{State: provider.GuestRunning, Stage: "modules-final", Message: "cloud-init is in its stage modules-final"}},
		"between": {statusJSON("null", "null", ""), provider.GuestReport{State: provider.GuestRunning, Message: "cloud-init is not done yet"}},
		"failed": {statusJSON("null", "30.5", runcmd+`, "('scripts-user', RuntimeError('x'))"`), provider.GuestReport{State: provider.GuestFailed,
			Failed: []string{"modules-final/runcmd", "modules-final/scripts_user"}, Message: "cloud-init ended with errors in modules-final/runcmd, modules-final/scripts_user"}},
		"failed, and not done": {statusJSON(`"modules-final"`, "null", runcmd), provider.GuestReport{State: provider.GuestRunning, Stage: "modules-final",
			Failed: []string{"modules-final/runcmd"}, Message: "cloud-init is in its stage modules-final, with errors in modules-final/runcmd"}},
		"failed without a module": {statusJSON("null", "30.5", `"no instance data found"`), provider.GuestReport{State: provider.GuestFailed,
			Failed: []string{"modules-final"}, Message: "cloud-init ended with errors in modules-final"}},
		"no JSON":            {"half a fi", untold("the guest's status of cloud-init cannot be read")},
		"other JSON":         {`[1, 2]`, untold("the guest's status of cloud-init cannot be read")},
		"empty":              {"", untold("the guest's status of cloud-init cannot be read")},
		"a stage of its own": {statusJSON(`"hunter2"`, "null", ""), provider.GuestReport{State: provider.GuestRunning, Message: "cloud-init is not done yet"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := told(t, tc.content)
			got, err := r.GuestReport(t.Context(), testID)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want, +got:\n%s", diff)
			}
			r.host.withDomain(testName, func(d *fakeDomain) {
				if len(d.ga.open) != 0 {
					t.Errorf("%d files are left open in the guest", len(d.ga.open))
				}
			})
			wantUntouched(t, r)
		})
	}
}

// Whatever stands in the file, the report has cloud-init's own names and nothing else.
func TestGuestReport_namesAndStatesOnly(t *testing.T) {
	const secret = "hunter2"
	for name, content := range map[string]string{
		"in an error":         statusJSON("null", "30.5", `"('runcmd', X('`+secret+`'))"`),
		"as an error":         statusJSON("null", "30.5", `"`+secret+`"`),
		"as a module":         statusJSON("null", "30.5", `"('`+secret+`', X('y'))"`),
		"as a stage":          statusJSON(`"`+secret+`"`, "null", ""),
		"as the data source":  strings.Replace(statusJSON("null", "30.5", ""), "DataSourceNoCloud", secret, 1),
		"as the whole file":   secret,
		"as a stage's result": `{"v1": {"` + secret + `": {"errors": ["` + secret + `"]}, "stage": null}}`,
	} {
		logged := &logLines{}
		r := told(t, content)
		ctx := logr.NewContext(t.Context(), logged.logger(2))
		report, err := r.GuestReport(ctx, testID)
		if err != nil || strings.Contains(fmt.Sprintf("%+v", report), secret) {
			t.Errorf("%s: %+v, %v: it tells the secret", name, report, err)
		}
		if strings.Contains(logged.text(), secret) {
			t.Errorf("%s: the log tells the secret:\n%s", name, logged.text())
		}
	}
	long := told(t, statusJSON("null", "30.5", strings.Repeat(`"('runcmd', X())", "('ntp', X())", `, 100)+`"x"`))
	report, err := long.GuestReport(t.Context(), testID)
	if err != nil || len(report.Failed) > maxFailed || len(report.Message) > 1<<10 {
		t.Errorf("%d failures and a message of %d bytes, %v: a report is bounded", len(report.Failed), len(report.Message), err)
	}
}

func TestGuestReport_unknownIsNoError(t *testing.T) {
	onGuest := func(change func(*fakeDomain)) func(*rig) {
		return func(r *rig) { r.host.withDomain(testName, change) }
	}
	answer := func(code libvirt.ErrorNumber, text string) func(*rig) {
		return func(r *rig) { r.host.arm(fault{method: "QEMUDomainAgentCommand", err: virErr(code, text)}) }
	}
	tests := map[string]struct {
		harm func(*rig)
		says string
	}{
		"not running":      {onGuest(func(d *fakeDomain) { d.live, d.state = nil, fakeShutoff }), "does not run"},
		"no agent":         {onGuest(func(d *fakeDomain) { d.agentConnected = false }), "not connected"},
		"no cloud-init":    {onGuest(func(d *fakeDomain) { d.ga.files = nil }), "no status of cloud-init"},
		"no file reading":  {onGuest(func(d *fakeDomain) { d.ga.refuses = []string{"guest-file-open"} }), "does not let its agent read files"},
		"no read":          {onGuest(func(d *fakeDomain) { d.ga.refuses = []string{"guest-file-read"} }), "does not let its agent read files"},
		"agent is silent":  {answer(libvirt.ErrAgentUnresponsive, "Guest agent is not responding: Guest agent not available for now"), "does not answer"},
		"agent not synced": {answer(libvirt.ErrAgentUnsynced, "Guest agent command failed"), "does not answer"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := told(t, statusJSON("null", "30.5", ""))
			tc.harm(r)
			report, err := r.GuestReport(t.Context(), testID)
			if err != nil || report.State != provider.GuestUnknown || !strings.Contains(report.Message, tc.says) {
				t.Errorf("%+v, %v; want Unknown and %q", report, err, tc.says)
			}
		})
	}
	r := told(t, "")
	r.host.arm(fault{method: "QEMUDomainAgentCommand", drop: true})
	_, err := r.GuestReport(t.Context(), testID)
	wantErr(t, err, provider.ErrTransient, provider.ReasonUnreachable)
}

// refusedLikeGet are IDs for which Get gives an error, with what stands on the host.
func refusedLikeGet(t *testing.T) map[string]func(r *rig) (id string) {
	t.Helper()
	return map[string]func(r *rig) string{
		"malformed":      func(*rig) string { return "hosts/beelink/vms/x" },
		"host not known": func(*rig) string { return "hosts/nowhere/domains/x" },
		"nothing there":  func(*rig) string { return testID },
		"unmarked":       func(r *rig) string { r.host.addDomain(markedXML(t, testName, otherUID, nil), true); return testID },
		"another owner's": func(r *rig) string {
			r.host.addDomain(markedXML(t, testName, otherUID, &mark{Managed: true, UID: otherUID, Owner: "installation-b", Ref: "a/b"}), true)
			return testID
		},
		"unreadable": func(r *rig) string {
			r.host.addDomain(markedXML(t, testName, otherUID, nil), true)
			r.host.withDomain(testName, func(d *fakeDomain) { d.rawXML = "<domain" })
			return testID
		},
		"host away": func(r *rig) string { r.dialer.refuse("beelink", errFakeLost); return testID },
	}
}

func wantRefusedLikeGet(t *testing.T, call func(ctx context.Context, r *rig, id string) error) {
	t.Helper()
	for name, arrange := range refusedLikeGet(t) {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			id := arrange(r)
			_, want := r.Get(t.Context(), id)
			got := call(t.Context(), r, id)
			if want == nil || !errors.Is(got, provider.ClassOf(want)) || provider.ReasonOf(got) != provider.ReasonOf(want) {
				t.Errorf("got %v, want class and reason of Get's %v", got, want)
			}
			wantUntouched(t, r)
		})
	}
}

func TestGuestReport_refusesWhatGetRefuses(t *testing.T) {
	wantRefusedLikeGet(t, func(ctx context.Context, r *rig, id string) error {
		_, err := r.GuestReport(ctx, id)
		return err
	})
}
