package egressctl_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider/fake"
)

func TestCheck_table(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := twoEntries(t)
		d.backend.Limit("cedar", 3)
		want := `ENTRY       HOST      READY   REASON   LATENCY   MESSAGE                        DETAILS
kvm2-home   beelink   yes     Ready    0s        the host beelink can be used   room=unlimited
kvm2-home   cedar     yes     Ready    0s        the host cedar can be used     room=3
kvm2-lab    aspen     yes     Ready    0s        the host aspen can be used     room=unlimited
`
		if diff := cmp.Diff(want, d.must("check", "-o", "wide").out); diff != "" {
			t.Errorf("-want, +got:\n%s", diff)
		}
	})
}

func TestCheck_aHostThatIsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := twoEntries(t)
		d.backend.FailHost("cedar", provider.Errorf(provider.ErrPermanent, provider.ReasonAuthFailed, "no key\x1b[31m of ours\nis accepted"))
		e := d.run("check")
		want := `ENTRY       HOST      READY   REASON       LATENCY   MESSAGE
kvm2-home   beelink   yes     Ready        0s        the host beelink can be used
kvm2-home   cedar     no      AuthFailed   0s        kvm2-home: zone cedar: no key [31m of ours; is accepted: see to the host cedar
kvm2-lab    aspen     yes     Ready        0s        the host aspen can be used
`
		if diff := cmp.Diff(want, e.out); diff != "" {
			t.Errorf("-want, +got:\n%s", diff)
		}
		if e.code != egressctl.CodeNotReady || e.err != "egressctl: not ready: cedar of kvm2-home (AuthFailed)\n" {
			t.Errorf("exit code %d, %q; want %d and which host", e.code, e.err, egressctl.CodeNotReady)
		}
		if got := d.must("check", "--entry", "kvm2-lab").out; strings.Contains(got, "cedar") {
			t.Errorf("--entry kvm2-lab checks:\n%s", got)
		}
	})
}

func TestCheck_problemsOfTheFileWithTheirPaths(t *testing.T) {
	d := newDesk(t, "beelink")
	d.write("providers.yaml", oneBroken+entry("kvm2-home", "beelink"))
	e := d.run("check", "-o", "json")
	if e.code != egressctl.CodeUsage || !strings.Contains(e.err, "providers[0].kvm2.colour") {
		t.Errorf("exit code %d, %q; want %d and the path", e.code, e.err, egressctl.CodeUsage)
	}
	var got struct {
		Ready    bool
		Hosts    []struct{ Host string }
		Problems []struct{ Entry, Path string }
	}
	if err := json.Unmarshal([]byte(e.out), &got); err != nil {
		t.Fatal(err)
	}
	if got.Ready || len(got.Hosts) != 1 || len(got.Problems) < 2 || got.Problems[0].Entry != "kvm2-bad" {
		t.Errorf("want every problem of the broken entry, and the other entry's host: %+v", got)
	}
	wantFailure(t, d.run("check", "--config", d.write("list.yaml", "- 1\n")), egressctl.CodeUsage, "list.yaml")
}

// diagnoser finds what it is given, by zone.
type diagnoser struct {
	*fake.Provider
	findings map[string][]provider.Finding
	errs     map[string]error
}

func (d diagnoser) Diagnose(_ context.Context, zone string) ([]provider.Finding, error) {
	return d.findings[zone], d.errs[zone]
}

func TestCheck_findingsWithTheirRemedies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, "aspen", "beelink", "cedar")
		d.backend.FailHost("cedar", fake.Unreachable())
		d.wrap = func(p *fake.Provider) provider.Provider {
			return diagnoser{p, map[string][]provider.Finding{
				"aspen": {{Severity: provider.SeverityWarning, Reason: "NoKVM", Message: "host aspen: no KVM", Remedy: "modprobe kvm_intel"}},
				"beelink": {{Severity: provider.SeverityError, Reason: "FirmwareUnavailable", Message: "host beelink: no UEFI", Remedy: "apt-get install ovmf"},
					{Severity: provider.SeverityNote, Reason: "ClockNotChecked", Message: "host beelink: no shell\x1b[2J", Remedy: "timedatectl"}},
			}, map[string]error{"cedar": fake.Unreachable()}}
		}
		e := d.run("check")
		want := `ENTRY       HOST      READY   REASON                LATENCY   MESSAGE
kvm2-home   aspen     yes     Ready                 0s        the host aspen can be used
kvm2-home   beelink   no      FirmwareUnavailable   0s        host beelink: no UEFI
`
		if !strings.HasPrefix(e.out, want) {
			t.Errorf("want the hosts first:\n%s\ngot:\n%s", want, e.out)
		}
		_, findings, _ := strings.Cut(e.out, "\n\n")
		wantFindings := `ENTRY       HOST      SEVERITY   REASON                FOUND                        REMEDY
kvm2-home   aspen     Warning    NoKVM                 host aspen: no KVM           modprobe kvm_intel
kvm2-home   beelink   Error      FirmwareUnavailable   host beelink: no UEFI        apt-get install ovmf
kvm2-home   beelink   Note       ClockNotChecked       host beelink: no shell�[2J   timedatectl
`
		if diff := cmp.Diff(wantFindings, findings); diff != "" {
			t.Errorf("findings, and none of a host that the check could not reach: -want, +got:\n%s", diff)
		}
		if e.code != egressctl.CodeNotReady || !strings.Contains(e.err, "beelink of kvm2-home (FirmwareUnavailable)") || strings.Contains(e.err, "aspen") {
			t.Errorf("exit code %d, %q: an Error makes a host not ready, a Warning does not", e.code, e.err)
		}
	})
}

func TestCheck_needsNoStateDirectory(t *testing.T) {
	d := newDesk(t, "beelink")
	d.env["EGRESSCTL_STATE_DIR"] = "/proc/nowhere"
	d.must("check")
}

func TestCheck_endsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, "beelink", "cedar")
		d.backend.Block(fake.Check)
		began := time.Now()
		e := d.run("check")
		if e.code != egressctl.CodeNotReady || strings.Count(e.out, "Timeout") != 2 {
			t.Errorf("exit code %d, want %d and both hosts timed out:\n%s", e.code, egressctl.CodeNotReady, e.out)
		}
		if took := time.Since(began); took != 30*time.Second {
			t.Errorf("it took %v, want 30s", took)
		}
	})
}
