package conformance

import (
	"context"

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
	if !s.bare {
		ctx = logr.NewContext(ctx, s.e.seen.logger())
	}
	ctx, end := s.e.seen.span(ctx, method)
	return ctx, func() {
		end()
		cancel()
	}
}

func (s *subject) Create(ctx context.Context, req provider.CreateRequest) (string, error) {
	s.e.mu.Lock()
	s.e.made = append(s.e.made, req)
	s.e.mu.Unlock()
	ctx, end := s.begin(ctx, "create")
	defer end()
	id, err := s.Provider.Create(ctx, req)
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
	inst, err := s.Provider.Get(ctx, id)
	s.note(outcome{method: "Get", err: err})
	return inst, err
}

func (s *subject) Delete(ctx context.Context, id string) error {
	ctx, end := s.begin(ctx, "delete")
	defer end()
	err := s.Provider.Delete(ctx, id)
	s.note(outcome{method: "Delete", err: err})
	return err
}

func (s *subject) ListByTag(ctx context.Context) ([]provider.Instance, error) {
	ctx, end := s.begin(ctx, "list")
	defer end()
	list, err := s.Provider.ListByTag(ctx)
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
	checks := checker.Check(ctx)
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
