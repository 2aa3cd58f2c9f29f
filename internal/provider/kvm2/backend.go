package kvm2

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/digitalocean/go-libvirt"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// libvirtConn is the production conn: the seam over go-libvirt, whose every method blocks and takes no
// ctx. One object serves one connection: reconnecting the library's own is a data race.
type libvirtConn struct {
	rpc    *libvirt.Libvirt
	guard  *frameGuard
	host   string
	limits limits
	// shell runs a command in the host's shell; nil where there is none.
	shell func(command string) ([]byte, error)

	calls      chan struct{} // a token per call in flight
	agentCalls chan struct{} // and one more per call that waits for a guest agent
}

var _ conn = (*libvirtConn)(nil)

func newLibvirtConn(rpc *libvirt.Libvirt, guard *frameGuard, host string, l limits) *libvirtConn {
	return &libvirtConn{
		rpc: rpc, guard: guard, host: host, limits: l,
		calls: make(chan struct{}, maxCalls), agentCalls: make(chan struct{}, maxAgentCalls),
	}
}

// Done is closed when the connection is dead.
func (c *libvirtConn) Done() <-chan struct{} { return c.guard.dead }

// Close drops the connection without a farewell: libvirt needs none, and a silent one would not
// answer it.
func (c *libvirtConn) Close() error { return c.guard.Close() }

// rpcCall is how one seam method is run.
type rpcCall struct {
	name  string
	limit time.Duration
	agent bool // it waits for a guest agent
}

// short is a call under the limit for ordinary calls.
func (c *libvirtConn) short(name string) rpcCall { return rpcCall{name: name, limit: c.limits.rpc} }

// aboutDomain is a call that may have to wait for a job on its domain.
func (c *libvirtConn) aboutDomain(name string) rpcCall {
	return rpcCall{name: name, limit: c.limits.domain}
}

// call runs fn, which blocks, and returns with its result, within a moment of ctx's end, or at the
// call's limit, whichever is first. A call that is given up may have taken effect; its connection
// is dropped, which frees the goroutine in fn. Errors are libvirt's own, a *provider.Error, or
// wrap ctx's.
func call[T any](ctx context.Context, c *libvirtConn, spec rpcCall, fn func() (T, error)) (T, error) {
	var none T
	release, err := c.acquire(ctx, spec)
	if err != nil {
		return none, err
	}
	type result struct {
		value T
		err   error
	}
	answer := make(chan result, 1)
	go func() {
		defer release()
		var r result
		r.value, r.err = guarded(fn)
		answer <- r
	}()
	limit := time.NewTimer(spec.limit)
	defer limit.Stop()
	select {
	case r := <-answer:
		return r.value, c.explain(spec, r.err)
	case <-ctx.Done():
		err = fmt.Errorf("%s on host %s: %w", spec.name, c.host, ctx.Err())
	case <-limit.C:
		err = provider.Errorf(provider.ErrTransient, provider.ReasonTimeout,
			"%s: host %s did not answer within %v, so whether the call took effect is not known", spec.name, c.host, spec.limit)
	case <-c.guard.dead:
		err = c.lost(spec)
	}
	select {
	case r := <-answer: // it came at the same moment
		return r.value, c.explain(spec, r.err)
	default:
	}
	_ = c.Close() // never fails
	return none, err
}

// acquire waits for the right to one more call in flight.
func (c *libvirtConn) acquire(ctx context.Context, spec rpcCall) (release func(), err error) {
	taken := make([]chan struct{}, 0, 2)
	release = func() {
		for _, tokens := range taken {
			<-tokens
		}
	}
	wanted := []chan struct{}{c.calls}
	if spec.agent {
		wanted = []chan struct{}{c.agentCalls, c.calls}
	}
	for _, tokens := range wanted {
		if err := ctx.Err(); err != nil {
			release()
			return nil, fmt.Errorf("%s on host %s: %w", spec.name, c.host, err)
		}
		select {
		case tokens <- struct{}{}:
			taken = append(taken, tokens)
		case <-ctx.Done():
			release()
			return nil, fmt.Errorf("%s on host %s: %w", spec.name, c.host, ctx.Err())
		case <-c.guard.dead:
			release()
			return nil, c.lost(spec)
		}
	}
	return release, nil
}

// explain leaves libvirt's own errors as they are, and says of the library's that the connection is
// gone when it is.
func (c *libvirtConn) explain(spec rpcCall, err error) error {
	var answer libvirt.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &answer):
		return clipped(answer)
	case c.guard.failure() != nil:
		return c.lost(spec)
	}
	return fmt.Errorf("%s on host %s: %w", spec.name, c.host, err)
}

func (c *libvirtConn) lost(spec rpcCall) error {
	return provider.Errorf(provider.ErrTransient, provider.ReasonUnreachable,
		"%s: the connection to libvirt on host %s was lost, so whether the call took effect is not known: %w",
		spec.name, c.host, c.guard.failure())
}

// guarded runs fn and makes an error of a panic in it.
func guarded[T any](fn func() (T, error)) (value T, err error) {
	defer recoverTo(&err)
	return fn()
}

// recoverTo is deferred around calls of the library, which decodes what a host sends.
func recoverTo(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("the libvirt library panicked: %v", p)
	}
}

// noResult gives a call without a result the form that call takes.
func noResult(fn func() error) func() (struct{}, error) {
	return func() (struct{}, error) { return struct{}{}, fn() }
}
