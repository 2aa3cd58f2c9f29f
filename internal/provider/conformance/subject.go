package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// subject is a provider whose every call is limited and noted.
type subject struct {
	provider.Provider
	e *exam
	// quiet calls are not noted: those that clean up.
	quietly bool
	// bare calls carry no logger of their own.
	bare bool
}

func (e *exam) subject(p provider.Provider) *subject { return &subject{Provider: p, e: e} }

// withoutLogger hides the logger that the caller of the suite has in its context.
type withoutLogger struct{ context.Context }

func (c withoutLogger) Value(key any) any {
	value := c.Context.Value(key)
	if _, ok := value.(logr.Logger); ok {
		return nil
	}
	return value
}

// ended gives a context that has ended.
func ended(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx
}

// quiet is the harness's provider, unobserved.
func (e *exam) quiet() *subject { return &subject{Provider: e.h.Provider, e: e, quietly: true} }

// bareLog calls the provider without a logger in the context.
func (s *subject) bareLog() *subject { return &subject{Provider: s.Provider, e: s.e, bare: true} }

// begin gives a call its limit, its logger and its span.
func (s *subject) begin(ctx context.Context, method string) (context.Context, func()) {
	ctx, cancel := context.WithTimeout(ctx, s.e.patience())
	if s.quietly {
		return logr.NewContext(ctx, logr.Discard()), cancel
	}
	if s.bare {
		ctx = withoutLogger{ctx}
	} else {
		ctx = logr.NewContext(ctx, s.e.seen.logger())
	}
	ctx, end := s.e.seen.span(ctx, method)
	return ctx, func() {
		end()
		cancel()
	}
}

// overdue is how long after the end of its context a method is waited for.
const overdue = 2 * within

// returned makes a call and waits for its end. One that goes on after the end of its context gets what it may
// wait for, an end of the faults, and is given up when it goes on even so. A panic is an error without a class.
func returned[T any](ctx context.Context, s *subject, call func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	results := make(chan result, 1)
	go func() {
		defer func() {
			if r := recover(); r != nil {
				results <- result{err: fmt.Errorf("panic: %v", r)}
			}
		}()
		value, err := call()
		results <- result{value, err}
	}()
	select {
	case r := <-results:
		return r.value, r.err
	case <-ctx.Done():
	}
	for range 2 {
		timer := time.NewTimer(overdue)
		select {
		case r := <-results:
			timer.Stop()
			return r.value, r.err
		case <-timer.C:
			if s.e.h.Faults != nil {
				s.e.h.Faults.Disarm()
			}
		}
	}
	var none T
	return none, errors.New("the method did not return after the end of its context")
}

func (s *subject) Create(ctx context.Context, req provider.CreateRequest) (string, error) {
	s.e.mu.Lock()
	s.e.made = append(s.e.made, req)
	s.e.mu.Unlock()
	ctx, end := s.begin(ctx, "create")
	defer end()
	id, err := returned(ctx, s, func() (string, error) { return s.Provider.Create(ctx, req) })
	if id != "" {
		s.e.mu.Lock()
		s.e.ids[id] = true
		s.e.mu.Unlock()
	}
	s.note(outcome{method: "Create", err: err, id: id})
	return id, err
}

func (s *subject) Get(ctx context.Context, id string) (provider.Instance, error) {
	ctx, end := s.begin(ctx, "get")
	defer end()
	inst, err := returned(ctx, s, func() (provider.Instance, error) { return s.Provider.Get(ctx, id) })
	s.note(outcome{method: "Get", err: err})
	return inst, err
}

func (s *subject) Delete(ctx context.Context, id string) error {
	ctx, end := s.begin(ctx, "delete")
	defer end()
	_, err := returned(ctx, s, func() (struct{}, error) { return struct{}{}, s.Provider.Delete(ctx, id) })
	s.note(outcome{method: "Delete", err: err})
	return err
}

func (s *subject) ListByTag(ctx context.Context) ([]provider.Instance, error) {
	ctx, end := s.begin(ctx, "list")
	defer end()
	list, err := returned(ctx, s, func() ([]provider.Instance, error) { return s.Provider.ListByTag(ctx) })
	s.note(outcome{method: "ListByTag", err: err})
	return list, err
}

// Check is nil for a provider that has none.
func (s *subject) Check(ctx context.Context) []provider.HostCheck {
	checker, ok := provider.As[provider.Checker](s.Provider)
	if !ok {
		return nil
	}
	ctx, end := s.begin(ctx, "check")
	defer end()
	checks, err := returned(ctx, s, func() ([]provider.HostCheck, error) { return checker.Check(ctx), nil })
	if err != nil {
		return nil
	}
	if !s.quietly {
		s.e.seen.checked(checks)
	}
	return checks
}

func (s *subject) note(o outcome) {
	if !s.quietly {
		s.e.seen.ended(s.e.h, s.e.def.Name, o)
	}
}
