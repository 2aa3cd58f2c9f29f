package conformance

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

var checkCases = []Case{
	{
		Name: "check of healthy hosts", Safe: true,
		Rules: []string{"R2.6.1", "R2.6.2", "R2.6.6", "R2.6.9", "R2.6.10"}, try: checkHealthy,
	},
	{Name: "check of a host that cannot be reached", Rules: []string{"R2.6.1", "R2.6.2", "R2.6.6", "R2.6.7"}, try: checkUnreachable},
	{Name: "check that is cut off at each call", Rules: []string{"R2.6.2"}, try: checkCutOff},
	{Name: "check whose context ends", Rules: []string{"R2.6.1", "R2.6.3", "R2.6.6", "R2.6.7"}, try: checkEnded},
	{Name: "check of all hosts at once", Rules: []string{"R2.6.4"}, try: checkAtOnce},
	{Name: "check with few and with many instances", Rules: []string{"R2.6.5"}, try: checkConstant},
	{Name: "check during another call", Rules: []string{"R2.6.8"}, try: checkBeside},
}

var camelCase = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)

// mustCheck tries what holds for every result of a check: one for each host, and a reason.
func (e *exam) mustCheck(checks []provider.HostCheck, text string) {
	var hosts []string
	for _, c := range checks {
		hosts = append(hosts, c.Host)
		right := camelCase.MatchString(c.Reason) && c.Ready == (c.Reason == provider.ReasonReady)
		e.must("R2.6.6", right, "%s: the host %s has ready %v and the reason %q", text, c.Host, c.Ready, c.Reason)
	}
	e.must("R2.6.1", slices.Equal(hosts, e.h.Zones), "%s: Check gives the hosts %q, the entry %q", text, hosts, e.h.Zones)
}

func checkHealthy(e *exam) {
	e.create(e.request())
	var checks []provider.HostCheck
	e.unchanged("R2.6.9", "Check", func() { checks = e.p.Check(e.ctx) })
	e.mustCheck(checks, "healthy hosts")
	for _, c := range checks {
		e.must("R2.6.2", c.Ready, "the host %s takes instances and is not ready: %s", c.Host, c.Message)
		seen := map[string]bool{}
		for _, d := range c.Details {
			e.must("R2.6.10", !seen[d.Key], "the host %s has the detail %s twice", c.Host, d.Key)
			seen[d.Key] = true
		}
		e.must("R2.6.10", true, "")
	}
}

func checkUnreachable(e *exam) {
	for _, zone := range e.h.Zones {
		ok := e.under([]Fault{{Kind: Unreachable, Host: zone, First: 1}}, e.def.Rules, func() {
			checks := e.p.Check(e.ctx)
			e.mustCheck(checks, "the host "+zone+" cannot be reached")
			for _, c := range checks {
				e.must("R2.6.2", c.Ready == (c.Host != zone), "the host %s is ready %v while %s cannot be reached", c.Host, c.Ready, zone)
				e.mustExplain(c)
			}
		})
		if !ok {
			return
		}
	}
}

func (e *exam) mustExplain(c provider.HostCheck) {
	if !c.Ready {
		e.must("R2.6.7", strings.Contains(c.Message, c.Host) && len(c.Message) > len(c.Host), "the message of the host %s does not name it and say what to do: %q", c.Host, c.Message)
	}
}

func checkCutOff(e *exam) {
	e.everyCall(diesBefore, []string{"R2.6.2"}, func(s *sweep) {
		if !s.arm() {
			return
		}
		checks := e.p.Check(e.ctx)
		s.disarm()
		call, hit := s.hit()
		for _, c := range checks {
			if hit && c.Host == call.Host {
				e.must("R2.6.2", !c.Ready, "%s: the host %s is ready", s.at(), c.Host)
			}
		}
	})
}

func checkEnded(e *exam) {
	notReady := func(checks []provider.HostCheck, text string) {
		e.mustCheck(checks, text)
		for _, c := range checks {
			e.must("R2.6.3", !c.Ready, "%s: the host %s is ready", text, c.Host)
			e.mustExplain(c)
		}
	}
	e.prompt("R2.6.3", "Check with a context that has ended", func() time.Duration {
		begin := time.Now()
		notReady(e.p.Check(ended(e.ctx)), "a context that has ended")
		return time.Since(begin)
	})
	const soon = 50 * time.Millisecond
	e.under([]Fault{{Kind: Hanging, First: 1}}, []string{"R2.6.3"}, func() {
		e.prompt("R2.6.3", "Check after its deadline", func() time.Duration {
			ctx, cancel := context.WithTimeout(e.ctx, soon)
			defer cancel()
			begin := time.Now()
			notReady(e.p.Check(ctx), "hosts that do not answer")
			return time.Since(begin) - soon
		})
	})
}

// checkAtOnce lets no call be answered until every host has been asked.
func checkAtOnce(e *exam) {
	if len(e.h.Zones) < 2 {
		e.lacks("second host", "R2.6.4")
		return
	}
	asked := make(chan string, 1000)
	e.under([]Fault{{Kind: Hanging, First: 1, Do: func(c Call) { asked <- c.Host }}}, []string{"R2.6.4"}, func() {
		ctx, cancel := context.WithCancel(e.ctx)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			e.p.Check(ctx)
		}()
		limit := time.NewTimer(e.patience() / 2)
		defer limit.Stop()
		hosts := map[string]bool{}
	waiting:
		for len(hosts) < len(e.h.Zones) {
			select {
			case host := <-asked:
				hosts[host] = true
			case <-limit.C:
				break waiting
			case <-ended:
				break waiting
			}
		}
		cancel()
		<-ended
		e.must("R2.6.4", len(hosts) == len(e.h.Zones), "Check asked %d of %d hosts before the first one answered", len(hosts), len(e.h.Zones))
	})
}

func checkConstant(e *exam) {
	count := func() (int, bool) { return e.callsOf([]string{"R2.6.5"}, func() { e.p.Check(e.ctx) }) }
	count() // what is kept is there after this
	few, ok := count()
	if !ok {
		return
	}
	for range 5 {
		e.create(e.request())
	}
	many, _ := count()
	e.must("R2.6.5", few == many, "Check makes %d backend calls, and %d with five instances more", few, many)
}

// checkBeside checks while a Get waits for its answer.
func checkBeside(e *exam) {
	id := e.create(e.request())
	arrived := make(chan struct{}, 1)
	result := make(chan error, 1)
	ok := e.under([]Fault{{Kind: Hanging, First: 1, Count: 1, Do: func(Call) { arrived <- struct{}{} }}}, []string{"R2.6.8"}, func() {
		go func() {
			_, err := e.p.Get(e.ctx, id)
			result <- err
		}()
		select {
		case <-arrived:
			e.p.Check(e.ctx)
		case err := <-result:
			result <- err
		}
	})
	if ok {
		err := <-result
		e.must("R2.6.8", err == nil, "Get during which a Check ran: %v", err)
	}
}
