package kvm2

import (
	"fmt"
	"testing"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// coldOn is a provider on h whose image comes from the mirror. Waits for what a dead process left of a
// transfer are short.
func coldOn(t *testing.T, h *fakeHost, m *mirror) *rig {
	t.Helper()
	r := rigOn(t, h)
	r.config.Images["egress"] = m.image()
	limits := defaultImageLimits()
	limits.poll, limits.quiet, limits.cleanup = time.Millisecond, 5*time.Millisecond, time.Second
	r.images = newImagesWithin(r.hosts, limits)
	return r
}

// As TestCreate_resumesAfterEachPartialStep, with the image's transfer among the steps.
func TestCreate_resumesAfterEachPartialStepOfAColdImage(t *testing.T) {
	m := newMirror(t, qcow2Bytes(256<<10))
	clean := coldOn(t, newFakeHost("beelink"), m)
	clean.mustCreate(t, testRequest())
	total, wantShared := len(clean.host.recorded()), shared(clean.host)
	if len(wantShared) != 2 {
		t.Fatalf("base and marker are %v", wantShared)
	}
	for name, ending := range endings() {
		t.Run(name, func(t *testing.T) {
			for k := 1; k <= total; k++ {
				r := coldOn(t, newFakeHost("beelink"), m)
				ending.nth = k
				r.host.arm(ending)
				_, err := r.Create(t.Context(), testRequest())
				r.host.disarm()
				at := fmt.Sprintf("after call %d (%v, first error %v)", k, r.host.recorded()[k-1], err)
				coldOn(t, r.host, m).mustCreate(t, testRequest())
				wantOneInstance(t, r.host, at, wantShared)
			}
		})
	}
}

func TestClose_endsATransferWithinASecond(t *testing.T) {
	content := qcow2Bytes(256 << 10)
	m := newMirror(t, content)
	r := coldOn(t, newFakeHost("beelink"), m)
	reached := make(chan struct{})
	m.set(content, half(content, reached, nil))
	result := make(chan error, 1)
	go func() {
		_, err := r.Create(t.Context(), testRequest())
		result <- err
	}()
	<-reached
	waitForUpload(t, r.host)
	started := time.Now()
	if err := r.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if took := time.Since(started); took > time.Second {
		t.Errorf("close took %v", took)
	}
	wantErr(t, <-result, provider.ErrTransient, provider.ReasonCanceled)
	if n := r.dialer.openLinks(); n != 0 {
		t.Errorf("%d SSH connections are left open", n)
	}
}

// The host does not even answer the removal of what was written: connections are cut then.
func TestClose_hostThatHangsIsCutOff(t *testing.T) {
	content := qcow2Bytes(256 << 10)
	m := newMirror(t, content)
	r := coldOn(t, newFakeHost("beelink"), m)
	r.images.limits.cleanup = time.Minute
	reached := make(chan struct{})
	m.set(content, half(content, reached, nil))
	r.host.arm(fault{method: "StorageVolDelete", block: make(chan struct{})})
	result := make(chan error, 1)
	go func() {
		_, err := r.Create(t.Context(), testRequest())
		result <- err
	}()
	<-reached
	waitForUpload(t, r.host)
	started := time.Now()
	if err := r.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if took := time.Since(started); took > time.Second {
		t.Errorf("close took %v", took)
	}
	if err := <-result; err == nil {
		t.Error("the create must fail")
	}
}
