package conformance

import (
	"errors"
	"strings"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

var createRefuseCases = []Case{
	{
		Name: "create with an unknown placement", Safe: true,
		Rules: []string{"R2.2.18", "R2.2.19", "R2.2.20"}, try: createUnknown,
	},
	{Name: "create of a malformed request", Safe: true, Rules: []string{"R2.2.21", "R2.2.22"}, try: createMalformed},
	{Name: "create without room", Rules: []string{"R2.2.25", "R2.2.27"}, try: createNoRoom},
	{Name: "create with a bad image", Rules: []string{"R2.2.27"}, try: createBadImage},
	{Name: "create that is refused at each call", Rules: []string{"R2.2.27"}, try: createDenied},
	{Name: "create where each thing is said to be missing", Rules: []string{"R2.2.26"}, try: createMissing},
}

func createUnknown(e *exam) {
	for rule, set := range map[string]struct {
		reason string
		change func(*provider.Placement)
	}{
		"R2.2.18": {provider.ReasonUnknownZone, func(p *provider.Placement) { p.Zone = "no-such-zone" }},
		"R2.2.19": {provider.ReasonUnknownMachineType, func(p *provider.Placement) { p.MachineType = "no-such-machine-type" }},
		"R2.2.20": {provider.ReasonUnknownImage, func(p *provider.Placement) { p.Image = "no-such-image" }},
	} {
		req := e.request()
		set.change(&req.Placement)
		e.silent(rule, "Create with an unknown placement", func() {
			_, err := e.p.Create(e.ctx, req)
			e.mustBe(rule, err, provider.ErrPermanent, set.reason, "Create with an unknown placement")
		})
	}
}

func createMalformed(e *exam) {
	for what, change := range map[string]func(*provider.CreateRequest){
		"no name":                      func(r *provider.CreateRequest) { r.Name = "" },
		"a name of 64 bytes":           func(r *provider.CreateRequest) { r.Name = strings.Repeat("a", longestName+1) },
		"an upper-case name":           func(r *provider.CreateRequest) { r.Name = "Berlin" },
		"a name with a dot":            func(r *provider.CreateRequest) { r.Name = "a.b" },
		"a name with a slash":          func(r *provider.CreateRequest) { r.Name = "../a" },
		"a name that ends in a hyphen": func(r *provider.CreateRequest) { r.Name = "a-" },
		"no UID":                       func(r *provider.CreateRequest) { r.UID = "" },
		"an upper-case UID":            func(r *provider.CreateRequest) { r.UID = strings.ToUpper(r.UID[:35]) + "A" },
		"a UID that is none":           func(r *provider.CreateRequest) { r.UID = "1234" },
		"no ref":                       func(r *provider.CreateRequest) { r.Ref = "" },
		"a ref without a namespace":    func(r *provider.CreateRequest) { r.Ref = "berlin" },
		"no user-data":                 func(r *provider.CreateRequest) { r.CloudInit = nil },
		"more than 1 MiB of user-data": func(r *provider.CreateRequest) { r.CloudInit = make([]byte, provider.MaxCloudInit+1) },
	} {
		req := e.request()
		change(&req)
		e.silent("R2.2.21", "Create with "+what, func() {
			_, err := e.p.Create(e.ctx, req)
			e.mustBe("R2.2.21", err, provider.ErrPermanent, provider.ReasonInvalidRequest, "Create with "+what)
		})
	}
	req := e.request()
	req.Owner = otherOwner
	_, err := e.p.Create(e.ctx, req)
	e.mustBe("R2.2.22", err, provider.ErrPermanent, provider.ReasonInvalidRequest, "Create for another owner")
}

func createNoRoom(e *exam) {
	if _, ok := e.measure("R2.2.27"); !ok { // what is shared is there
		e.discard(e.request())
	}
	req := e.request()
	if e.h.Fill == nil {
		e.lacks("way to fill the backend", "R2.2.25", "R2.2.27")
		return
	}
	if !e.done(e.h.Fill(e.ctx, req.Placement.Zone), "way to fill the backend", "R2.2.25", "R2.2.27") {
		return
	}
	_, err := e.p.Create(e.ctx, req)
	e.mustBe("R2.2.25", err, provider.ErrQuotaExceeded, "", "Create where there is no room")
	e.mustBeNone("R2.2.27", req.Name, "after a Create without room")
}

func createBadImage(e *exam) {
	if e.h.BadImage == "" {
		e.lacks("image that cannot be used", "R2.2.27")
		return
	}
	req := e.request()
	req.Placement.Image = e.h.BadImage
	_, err := e.p.Create(e.ctx, req)
	e.need(err != nil, "Create with an image that cannot be used succeeded")
	if errors.Is(err, provider.ErrPermanent) || errors.Is(err, provider.ErrQuotaExceeded) {
		e.mustBeNone("R2.2.27", req.Name, "after a Create with a bad image")
	}
}

// createDenied lets the backend refuse each call for good. What already runs is no leftover: only the last look
// was refused then.
func createDenied(e *exam) {
	if _, ok := e.measure("R2.2.27"); !ok {
		return
	}
	e.everyCall(once(Denied), []string{"R2.2.27"}, func(s *sweep) {
		req := e.request()
		if !s.arm() {
			return
		}
		_, err := e.p.Create(e.ctx, req)
		s.disarm()
		found, _ := e.look("R2.2.27")
		mine := found.of(req.Name)
		final := errors.Is(err, provider.ErrPermanent) || errors.Is(err, provider.ErrQuotaExceeded)
		running := len(mine.instances()) == 1 && mine.instances()[0].Running
		e.must("R2.2.27", !final || len(mine) == 0 || running, "%s: Create ended in %v and left %s", s.at(), err, mine)
		e.discard(req)
	})
}

func createMissing(e *exam) {
	e.everyCall(once(Missing), []string{"R2.2.26"}, func(s *sweep) {
		req := e.request()
		if !s.arm() {
			return
		}
		_, err := e.p.Create(e.ctx, req)
		s.disarm()
		e.must("R2.2.26", !errors.Is(err, provider.ErrNotFound), "%s: Create gives NotFound: %v", s.at(), err)
		e.discard(req)
	})
}
