package kvm2

import (
	"context"
	"errors"
	"io"
	"testing"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// A call that is given up takes its connection along: the ones beside it, of the same context, end with
// what a broken connection gives, and have to match the context's error all the same (R2.1.4).
func TestFailed_doubtAfterTheContextsEndMatchesIt(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	if err := r.failed(ctx, classify, "get", io.ErrUnexpectedEOF); errors.Is(err, context.Canceled) {
		t.Errorf("%v matches a context that has not ended", err)
	}
	cancel()
	err := r.failed(ctx, classify, "get", io.ErrUnexpectedEOF)
	if !errors.Is(err, context.Canceled) || !errors.Is(err, provider.ErrTransient) {
		t.Errorf("%v does not match context.Canceled and ErrTransient", err)
	}
	refused := r.failed(ctx, classify, "get", provider.Errorf(provider.ErrPermanent, provider.ReasonNotOurs, "no"))
	if errors.Is(refused, context.Canceled) || !errors.Is(refused, provider.ErrPermanent) {
		t.Errorf("%v: what libvirt answered in time is no matter of the context's end", refused)
	}
}
