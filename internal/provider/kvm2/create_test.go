package kvm2

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/digitalocean/go-libvirt"
	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

func TestCreate_makesOneRunningInstance(t *testing.T) {
	r := newRig(t)
	if id := r.mustCreate(t, testRequest()); id != testID {
		t.Errorf("ID %q, want %q", id, testID)
	}
	if diff := cmp.Diff(startedVolumes(), own(r.host)); diff != "" {
		t.Errorf("volumes of the instance: -want, +got:\n%s", diff)
	}
	r.host.withDomain(testName, func(d *fakeDomain) {
		if d.state != fakeRunning || !d.autostart {
			t.Errorf("state %d, autostart %v: the instance must run, and come back with its host", d.state, d.autostart)
		}
	})
	inst, err := r.Get(t.Context(), testID)
	if err != nil {
		t.Fatal(err)
	}
	want := provider.Instance{
		ID: testID, Name: testName, UID: testUID, Owner: testOwner, Ref: "egress/berlin-1", Zone: "beelink",
		State: provider.StateProvisioning, MACs: []string{macFor(testUID)}, CreatedAt: inst.CreatedAt,
	}
	if diff := cmp.Diff(want, inst); diff != "" {
		t.Errorf("what Get says of it: -want, +got:\n%s", diff)
	}
	if age := time.Since(inst.CreatedAt); age < 0 || age > time.Minute {
		t.Errorf("createdAt %v is not the time of the create", inst.CreatedAt)
	}
}

func TestCreate_repeatReturnsSameIDAndCreatesNothing(t *testing.T) {
	r := newRig(t)
	first := r.mustCreate(t, testRequest())
	r.host.forget()
	if second := r.mustCreate(t, testRequest()); second != first {
		t.Errorf("second create gives %q, want %q", second, first)
	}
	if got := writes(r.host.recorded()); got != nil {
		t.Errorf("a repeated create changed something: %v", got)
	}
	if diff := cmp.Diff([]string{testName}, r.host.domainNames()); diff != "" {
		t.Errorf("domains: -want, +got:\n%s", diff)
	}
}

func TestCreate_twentyAtOnceGiveOneInstance(t *testing.T) {
	r := newRig(t)
	var calls sync.WaitGroup
	for range 20 {
		calls.Go(func() {
			if id, err := r.Create(t.Context(), testRequest()); err != nil || id != testID {
				t.Errorf("create: %q, %v", id, err)
			}
		})
	}
	calls.Wait()
	if n := r.host.count("DomainDefineXML"); n != 1 {
		t.Errorf("%d domains were defined, want 1", n)
	}
}

// Two processes do not share a lock: libvirt refuses the second volume of a name, and what is there and
// unused is taken as it is.
func TestCreate_twoProcessesGiveOneInstance(t *testing.T) {
	a := newRig(t)
	b := rigOn(t, a.host)
	reached, goOn := make(chan struct{}), make(chan struct{})
	a.host.arm(fault{method: "DomainDefineXML", nth: 1, entered: reached, block: goOn})
	result := make(chan error, 1)
	go func() {
		_, err := a.Create(t.Context(), testRequest())
		result <- err
	}()
	<-reached
	b.mustCreate(t, testRequest())
	close(goOn)
	if err := <-result; err != nil {
		t.Errorf("the slower process must find the instance made: %v", err)
	}
	if diff := cmp.Diff([]string{testName}, a.host.domainNames()); diff != "" {
		t.Errorf("domains: -want, +got:\n%s", diff)
	}
	a.host.withDomain(testName, func(d *fakeDomain) {
		if d.starts != 1 || d.destroyed != 0 {
			t.Errorf("started %d times, destroyed %d times, want one start", d.starts, d.destroyed)
		}
	})
	if n := a.host.count("StorageVolDelete"); n != 0 {
		t.Errorf("%d volumes were deleted under the other process, want 0", n)
	}
}

func TestCreate_returnsOnlyWhenRunning(t *testing.T) {
	t.Run("waits for the start", func(t *testing.T) {
		r := newRig(t)
		reached, goOn := make(chan struct{}), make(chan struct{})
		r.host.arm(fault{method: "DomainCreate", entered: reached, block: goOn})
		result := make(chan error, 1)
		go func() {
			_, err := r.Create(t.Context(), testRequest())
			result <- err
		}()
		<-reached
		select {
		case err := <-result:
			t.Fatalf("create returned (%v) before the domain ran", err)
		default:
		}
		close(goOn)
		if err := <-result; err != nil {
			t.Fatal(err)
		}
	})
	t.Run("a start that leads to no running domain is an error", func(t *testing.T) {
		r := newRig(t)
		r.host.arm(fault{method: "DomainGetState", nth: 1, hook: func() {
			r.host.withDomain(testName, func(d *fakeDomain) { d.state = fakePaused })
		}})
		_, err := r.Create(t.Context(), testRequest())
		wantErr(t, err, provider.ErrTransient, reasonNotRunning)
	})
}

func TestCreate_rejectsUnknownPlacement(t *testing.T) {
	tests := map[string]struct {
		reason string
		modify func(*provider.CreateRequest)
		want   string
	}{
		"zone":         {reason: "a zone is a configured host", modify: func(r *provider.CreateRequest) { r.Placement.Zone = "nowhere" }, want: provider.ReasonUnknownZone},
		"machine type": {reason: "a machine type is a key of the entry", modify: func(r *provider.CreateRequest) { r.Placement.MachineType = "huge" }, want: provider.ReasonUnknownMachineType},
		"image":        {reason: "an image is a key of the entry", modify: func(r *provider.CreateRequest) { r.Placement.Image = "beos" }, want: provider.ReasonUnknownImage},
		"owner":        {reason: "another owner's request is not ours to fulfil", modify: func(r *provider.CreateRequest) { r.Owner = "installation-b" }, want: provider.ReasonInvalidRequest},
		"name":         {reason: "a name is a DNS label", modify: func(r *provider.CreateRequest) { r.Name = "Not A Label" }, want: provider.ReasonInvalidRequest},
		"uid":          {reason: "a UID is a UUID", modify: func(r *provider.CreateRequest) { r.UID = "1" }, want: provider.ReasonInvalidRequest},
		"user-data":    {reason: "cloud-init passes over what begins with a byte order mark", modify: func(r *provider.CreateRequest) { r.CloudInit = provider.Secret("\xef\xbb\xbf#cloud-config") }, want: provider.ReasonInvalidRequest},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			req := testRequest(tc.modify)
			_, err := r.Create(t.Context(), req)
			wantErr(t, err, provider.ErrPermanent, tc.want)
			_, idErr := r.IDFor(req)
			wantErr(t, idErr, provider.ErrPermanent, tc.want)
			if n := r.dialer.dialed("beelink"); n != 0 {
				t.Errorf("%s: the host was dialled %d times for a request that can be refused without", tc.reason, n)
			}
		})
	}
}

func TestCreate_adoptionWithForeignUIDIsPermanent(t *testing.T) {
	r := newRig(t)
	r.mustCreate(t, testRequest())
	r.host.forget()
	_, err := r.Create(t.Context(), testRequest(func(req *provider.CreateRequest) { req.UID = otherUID }))
	wantErr(t, err, provider.ErrPermanent, provider.ReasonNameConflict)
	if got := writes(r.host.recorded()); got != nil {
		t.Errorf("the other instance was touched: %v", got)
	}
}

func TestCreate_poolOutOfSpaceIsQuotaExceeded(t *testing.T) {
	r := newRig(t)
	r.host.withPool(testPool, func(p *fakePool) { p.used = p.capacity - 1<<30 })
	_, err := r.Create(t.Context(), testRequest())
	wantErr(t, err, provider.ErrQuotaExceeded, provider.ReasonQuotaExceeded)
	if got := writes(r.host.recorded()); got != nil {
		t.Errorf("something was made in a pool without room: %v", got)
	}
}

// The pool fills while the seed is written: libvirt's own text says so.
func TestCreate_poolFullAtTheSeedLeavesNothing(t *testing.T) {
	r := newRig(t)
	r.host.arm(fault{method: "StorageVolCreateXML", arg: seedName(testName), nth: 1,
		err: virErr(libvirt.ErrSystemError, "cannot allocate 4096 bytes in file: No space left on device")})
	_, err := r.Create(t.Context(), testRequest())
	wantErr(t, err, provider.ErrQuotaExceeded, provider.ReasonQuotaExceeded)
	if left := own(r.host); len(left) != 0 {
		t.Errorf("a create that ends in QuotaExceeded left %v", left)
	}
}

func TestCreate_libvirtNotFoundIsTransientNotNotFound(t *testing.T) {
	clean := newRig(t)
	clean.mustCreate(t, testRequest())
	total := len(clean.host.recorded())
	for _, code := range []libvirt.ErrorNumber{libvirt.ErrNoDomain, libvirt.ErrNoStorageVol} {
		for k := 1; k <= total; k++ {
			r := newRig(t)
			r.host.arm(fault{nth: k, err: virErr(code, "not found")})
			if _, err := r.Create(t.Context(), testRequest()); err != nil && !errors.Is(err, provider.ErrTransient) {
				t.Errorf("call %d of %v answered with code %d gives %v, want Transient", k, r.host.recorded()[k-1], code, err)
			}
		}
	}
}

func TestCreate_cloudInitSentinelNeverLoggedOrInErrors(t *testing.T) {
	const sentinel = "S3NTINEL-user-data"
	req := testRequest(func(req *provider.CreateRequest) {
		req.CloudInit = provider.Secret("#cloud-config\n# " + sentinel + "\n")
	})
	clean := newRig(t)
	clean.mustCreate(t, req)
	total := len(clean.host.recorded())
	for k := 0; k <= total; k++ { // 0 is without a fault
		r := newRig(t)
		p := providerOn(t, observingDialer{r.dialer}, r.host)
		var log logLines
		if k > 0 {
			r.host.arm(fault{nth: k, err: virErr(libvirt.ErrInternalError, "no")})
		}
		_, err := p.Create(contextWithLog(t, log.logger(10)), req)
		if err != nil && strings.Contains(err.Error(), sentinel) {
			t.Errorf("call %d: the error holds user-data: %v", k, err)
		}
		if strings.Contains(log.text(), sentinel) {
			t.Errorf("call %d: the log holds user-data", k)
		}
		if k == 0 {
			r.host.withDomain(testName, func(d *fakeDomain) {
				doc, err := d.describe()
				if err != nil || strings.Contains(doc, sentinel) {
					t.Errorf("the domain's XML holds user-data, or %v", err)
				}
			})
			r.host.withVolume(testPool, seedName(testName), func(v *fakeVolume) {
				if !bytes.Contains(v.content, []byte(sentinel)) {
					t.Error("the seed does not hold the user-data: this test looks for the wrong thing")
				}
				if v.mode != modePrivate {
					t.Errorf("the seed's mode is %q, want %q", v.mode, modePrivate)
				}
			})
		}
	}
}

func TestCreate_seedHoldsTheCurrentUserData(t *testing.T) {
	for name, second := range map[string]string{
		"same length":  "#cloud-config\n# new\n",
		"other length": "#cloud-config\n# " + strings.Repeat("new", 5000) + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.host.arm(fault{method: "DomainDefineXML", nth: 1, drop: true})
			_, err := r.Create(t.Context(), testRequest(func(req *provider.CreateRequest) { req.CloudInit = provider.Secret("#cloud-config\n# old\n") }))
			wantErr(t, err, provider.ErrTransient, provider.ReasonUnreachable)
			r.mustCreate(t, testRequest(func(req *provider.CreateRequest) { req.CloudInit = provider.Secret(second) }))
			r.host.withVolume(testPool, seedName(testName), func(v *fakeVolume) {
				if !bytes.Contains(v.content, []byte(second)) || bytes.Contains(v.content, []byte("# old")) {
					t.Error("the seed of the second attempt holds the first one's user-data")
				}
			})
		})
	}
}

func TestCreate_stoppedInstanceIsStarted(t *testing.T) {
	for name, state := range map[string]int32{"shut off": fakeShutoff, "crashed": fakeCrashed} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.mustCreate(t, testRequest())
			r.host.withDomain(testName, func(d *fakeDomain) { d.live, d.id, d.state = nil, -1, state })
			uploads := r.host.count("StorageVolUpload")
			r.mustCreate(t, testRequest())
			r.host.withDomain(testName, func(d *fakeDomain) {
				if d.state != fakeRunning {
					t.Errorf("state %d, want running", d.state)
				}
			})
			if n := r.host.count("StorageVolUpload"); n != uploads {
				t.Error("the seed of an instance that exists was written again")
			}
		})
	}
}

// An instance that is finished or started again is as old as it was (R3.2.6).
func TestCreate_startedAgainKeepsItsTime(t *testing.T) {
	r := newRig(t)
	r.mustCreate(t, testRequest())
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	r.host.removeDomain(testName)
	r.host.addDomain(markedXML(t, testName, testUID, &mark{Managed: true, UID: testUID, Owner: testOwner, Ref: "egress/berlin-1", CreatedAt: at}), false)
	for range 2 { // off, then running
		r.mustCreate(t, testRequest())
		inst, err := r.Get(t.Context(), testID)
		if err != nil {
			t.Fatal(err)
		}
		if !inst.CreatedAt.Equal(at) {
			t.Errorf("created at %v, want %v as before", inst.CreatedAt, at)
		}
	}
}

// What an upload that was cut off left has the size of a seed, and is none.
func TestCreate_shortSeedIsWrittenAnew(t *testing.T) {
	r := newRig(t)
	r.host.arm(fault{method: "StorageVolUpload", nth: 1, drop: true, after: true})
	_, err := r.Create(t.Context(), testRequest())
	wantErr(t, err, provider.ErrTransient, provider.ReasonUnreachable)
	var whole int
	r.host.withVolume(testPool, seedName(testName), func(v *fakeVolume) {
		whole = len(v.content)
		v.content, v.length = v.content[:whole/2], v.length/2
	})
	r.mustCreate(t, testRequest())
	r.host.withVolume(testPool, seedName(testName), func(v *fakeVolume) {
		if len(v.content) != whole || v.length != v.capacity {
			t.Errorf("the seed has %d of %d bytes", v.length, v.capacity)
		}
	})
}

func TestCreate_pausedInstanceIsNotResumed(t *testing.T) {
	r := newRig(t)
	r.mustCreate(t, testRequest())
	r.host.withDomain(testName, func(d *fakeDomain) {
		d.state, d.reason = fakePaused, int32(libvirt.DomainPausedIoerror)
	})
	r.host.forget()
	_, err := r.Create(t.Context(), testRequest())
	wantErr(t, err, provider.ErrTransient, reasonNotRunning)
	if err == nil || !strings.Contains(err.Error(), "virsh resume") {
		t.Errorf("error %v does not say what to do", err)
	}
	if got := writes(r.host.recorded()); got != nil {
		t.Errorf("a paused instance was touched: %v", got)
	}
}

// The image took long, and somebody else's domain stands under the name by now.
func TestCreate_foreignDomainThatCameMeanwhileIsLeftAlone(t *testing.T) {
	r := newRig(t)
	r.host.arm(fault{method: "StorageVolUpload", nth: 1, hook: func() {
		r.host.addDomain(markedXML(t, testName, testUID, nil), true)
	}})
	_, err := r.Create(t.Context(), testRequest())
	wantErr(t, err, provider.ErrPermanent, provider.ReasonNameConflict)
	r.host.withDomain(testName, func(d *fakeDomain) {
		if d.config.Metadata != nil || d.destroyed != 0 {
			t.Error("a foreign domain of equal name and UUID was redefined or destroyed")
		}
	})
	if left := own(r.host); len(left) != 0 {
		t.Errorf("the volumes %v that the create made are left (R2.2.27)", left)
	}
}

// As before, and that domain has come to use one of the volumes.
func TestCreate_foreignDomainThatCameMeanwhileKeepsItsDisk(t *testing.T) {
	r := newRig(t)
	r.host.arm(fault{method: "StorageVolUpload", nth: 1, hook: func() {
		r.host.addDomain(fakeDomainXML(testName, otherUID, "", "/srv/vms/images/"+overlayName(testName)), true)
	}})
	_, err := r.Create(t.Context(), testRequest())
	wantErr(t, err, provider.ErrPermanent, provider.ReasonNameConflict)
	if diff := cmp.Diff([]string{overlayName(testName)}, own(r.host)); diff != "" {
		t.Errorf("volumes: -want, +got:\n%s", diff)
	}
}

func TestCreate_halfMadeIsFinishedAndKeepsItsTime(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, tc := range map[string]struct {
		uuid    string
		running bool
	}{
		"own UUID":            {uuid: testUID},
		"another UUID":        {uuid: otherUID},
		"running":             {uuid: testUID, running: true},
		"running, other UUID": {uuid: otherUID, running: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.host.addDomain(markedXML(t, testName, tc.uuid, &mark{Managed: true, Owner: testOwner, Ref: "egress/berlin-1", CreatedAt: at}), tc.running)
			r.mustCreate(t, testRequest())
			inst, err := r.Get(t.Context(), testID)
			if err != nil {
				t.Fatal(err)
			}
			if inst.UID != testUID || !inst.CreatedAt.Equal(at) {
				t.Errorf("finished instance has UID %q and time %v, want %q and %v", inst.UID, inst.CreatedAt, testUID, at)
			}
			if diff := cmp.Diff([]string{testName}, r.host.domainNames()); diff != "" {
				t.Errorf("domains: -want, +got:\n%s", diff)
			}
		})
	}
}

func TestCreate_markThatLibvirtDropsIsPermanentAndNothingStays(t *testing.T) {
	r := newRig(t)
	r.host.arm(fault{method: "DomainGetXMLDesc", nth: 1, hook: func() {
		r.host.withDomain(testName, func(d *fakeDomain) { d.config.Metadata = nil })
	}})
	_, err := r.Create(t.Context(), testRequest())
	wantErr(t, err, provider.ErrPermanent, reasonMarkLost)
	if names, left := r.host.domainNames(), own(r.host); len(names) != 0 || len(left) != 0 {
		t.Errorf("an unowned domain or its volumes stay: %v %v", names, left)
	}
	if n := r.host.count("DomainCreate"); n != 0 {
		t.Error("an unowned domain was started")
	}
}

// What is read back after the definition is not what was written: somebody else defined the domain in
// between, which stays, or the host does not keep the mark whole, and then nothing stays.
func TestCreate_markThatIsNotWholeIsNeverStarted(t *testing.T) {
	tests := map[string]struct {
		change func(*mark)
		stays  bool
	}{
		"another UID":    {change: func(m *mark) { m.UID = otherUID }, stays: true},
		"another owner":  {change: func(m *mark) { m.Owner = "installation-b" }, stays: true},
		"not managed":    {change: func(m *mark) { m.Managed = false }, stays: true},
		"another ref":    {change: func(m *mark) { m.Ref = "egress/other" }},
		"unreadable age": {change: func(m *mark) { m.CreatedAt = time.Time{} }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			m := mark{Managed: true, UID: testUID, Owner: testOwner, Ref: "egress/berlin-1", CreatedAt: time.Now()}
			tc.change(&m)
			doc := strings.ReplaceAll(markedXML(t, testName, testUID, &m), "0001-01-01T00:00:00Z", "yesterday")
			r.host.arm(fault{method: "DomainGetXMLDesc", nth: 1, hook: func() {
				r.host.removeDomain(testName)
				r.host.addDomain(doc, false)
			}})
			_, err := r.Create(t.Context(), testRequest())
			wantErr(t, err, provider.ErrPermanent, provider.ReasonNameConflict)
			if stays := len(r.host.domainNames()) == 1; stays != tc.stays {
				t.Errorf("the domain stays: %v, want %v", stays, tc.stays)
			}
			if n := r.host.count("DomainCreate"); n != 0 {
				t.Error("it was started")
			}
		})
	}
}

func TestCreate_refusedStartLeavesNothing(t *testing.T) {
	tests := map[string]struct {
		reason string
		code   libvirt.ErrorNumber
		text   string
	}{
		"firmware":   {reason: "a missing loader shows only at the start", code: libvirt.ErrOperationFailed, text: "operation failed: Unable to find any firmware to satisfy 'efi'"},
		"bridge":     {reason: "so does a missing bridge", code: libvirt.ErrSystemError, text: "Cannot get interface MTU on 'br9': No such device"},
		"permission": {reason: "so does a denied file", code: libvirt.ErrInternalError, text: "internal error: process exited while connecting to monitor: Could not open disk: Permission denied"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			before := shared(r.host)
			r.host.arm(fault{method: "DomainCreate", err: virErr(tc.code, tc.text)})
			for range 3 {
				_, err := r.Create(t.Context(), testRequest())
				if err == nil || !strings.Contains(err.Error(), tc.text) {
					t.Errorf("%s: error %v does not hold QEMU's text", tc.reason, err)
				}
				if names, left := r.host.domainNames(), own(r.host); len(names) != 0 || len(left) != 0 {
					t.Errorf("%s, and leaves %v %v", tc.reason, names, left)
				}
			}
			if diff := cmp.Diff(before, shared(r.host)); diff != "" {
				t.Errorf("the cached image must stay: -want, +got:\n%s", diff)
			}
			r.host.disarm()
			r.mustCreate(t, testRequest())
		})
	}
}

// libvirt did start it: what its guest does then is no reason to take it away.
func TestCreate_guestThatEndsAtOnceIsLeftForTheNextCall(t *testing.T) {
	r := newRig(t)
	r.host.arm(fault{method: "DomainGetState", nth: 1, hook: func() {
		r.host.withDomain(testName, func(d *fakeDomain) { d.live, d.id, d.state = nil, -1, fakeShutoff })
	}})
	_, err := r.Create(t.Context(), testRequest())
	wantErr(t, err, provider.ErrTransient, reasonNotRunning)
	if diff := cmp.Diff([]string{testName}, r.host.domainNames()); diff != "" {
		t.Errorf("domains: -want, +got:\n%s", diff)
	}
	r.host.disarm()
	r.mustCreate(t, testRequest())
}

// An instance that ran before keeps its disk when it cannot be started again for a while.
func TestCreate_refusedRestartKeepsTheInstance(t *testing.T) {
	r := newRig(t)
	r.mustCreate(t, testRequest())
	r.host.withDomain(testName, func(d *fakeDomain) { d.live, d.id, d.state = nil, -1, fakeShutoff })
	r.host.arm(fault{method: "DomainCreate", err: virErr(libvirt.ErrNoNetwork, "Network not found: br0")})
	if _, err := r.Create(t.Context(), testRequest()); err == nil {
		t.Fatal("a refused start must be an error")
	}
	if diff := cmp.Diff(startedVolumes(), own(r.host)); diff != "" {
		t.Errorf("volumes: -want, +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{testName}, r.host.domainNames()); diff != "" {
		t.Errorf("domains: -want, +got:\n%s", diff)
	}
}

func TestCreate_unreadableDomainUnderTheNameIsADoubt(t *testing.T) {
	r := newRig(t)
	r.host.addDomain(markedXML(t, testName, otherUID, nil), false)
	r.host.withDomain(testName, func(d *fakeDomain) { d.rawXML = "<domain><name>" })
	r.host.forget()
	_, err := r.Create(t.Context(), testRequest())
	wantErr(t, err, provider.ErrTransient, provider.ReasonBackendError)
	if got := writes(r.host.recorded()); got != nil {
		t.Errorf("what cannot be read was touched: %v", got)
	}
}

func TestCreate_emulationIsWarnedOfOnce(t *testing.T) {
	r := newRig(t)
	r.host.capabilities = fakeCapabilities("x86_64", "qemu")
	var log logLines
	ctx := contextWithLog(t, log.logger(0))
	for _, name := range []string{"proxy-1", "proxy-2"} {
		req := testRequest(func(req *provider.CreateRequest) { req.Name = name })
		if name == "proxy-2" {
			req.UID = otherUID
			_ = r.hosts.byName["beelink"].link.Close() // the capabilities are read again
		}
		if _, err := r.Create(ctx, req); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(log.text(), "KVM"); n != 1 {
		t.Errorf("%d warnings, want one per host:\n%s", n, log.text())
	}
}

// Seven calls are what bare go-libvirt needs for a VM; the rest here is proof: room, unused names, the
// mark read back, the state in the end.
func TestCreate_callsForOneInstance(t *testing.T) {
	r := newRig(t)
	r.mustCreate(t, testRequest())
	r.host.forget()
	r.mustCreate(t, testRequest(func(req *provider.CreateRequest) { req.Name, req.UID = "proxy-2", otherUID }))
	const limit = 20
	if calls := r.host.recorded(); len(calls) > limit {
		t.Errorf("%d calls for an instance from a cached image, want at most %d: %v", len(calls), limit, calls)
	}
}

func TestCreate_reportsItsSteps(t *testing.T) {
	r := newRig(t)
	var mu sync.Mutex
	var steps []string
	ctx := provider.WithProgress(t.Context(), func(p provider.Progress) {
		mu.Lock()
		defer mu.Unlock()
		steps = append(steps, p.Step)
	})
	if _, err := r.Create(ctx, testRequest()); err != nil {
		t.Fatal(err)
	}
	got := strings.Join(steps, " ")
	if !strings.HasSuffix(got, "disk seed domain start") {
		t.Errorf("steps %q, want them to end with disk, seed, domain, start", got)
	}
}

func contextWithLog(t *testing.T, log logr.Logger) context.Context {
	t.Helper()
	return logr.NewContext(t.Context(), log)
}
