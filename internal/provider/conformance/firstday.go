package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

var firstDayCases = []Case{
	{Name: "images and what uses them", Rules: []string{"R2.12.1", "R2.12.2"}, try: imagesInUse},
	{Name: "an image that is removed during create", Rules: []string{"R2.12.3"}, try: imageRemoved},
	{Name: "the console", Rules: []string{"R2.13.1", "R2.13.2"}, try: readingConsole},
	{Name: "the report of a guest", Rules: []string{"R2.14.1", "R2.14.2", "R8.3.7"}, try: reportingGuest},
	{Name: "a closer look at a host", Rules: []string{"R2.15.1", "R2.15.2"}, try: diagnosing},
}

// imagesInUse makes an instance of ours and one of another owner over one image.
func imagesInUse(e *exam) {
	keeper, _ := provider.As[provider.ImageKeeper](e.h.Provider)
	first := e.request()
	e.create(first)
	names := []string{first.Name}
	if other, ok := e.build(Variation{Owner: otherOwner}, "another owner's provider", "R2.12.1"); ok {
		second := e.request()
		second.Placement, second.Owner = first.Placement, otherOwner
		id, err := e.settle(other, second)
		e.need(err == nil, "create of another owner's instance: %v", err)
		defer func() { e.need(e.remove(other, id) == nil, "delete failed") }()
		names = append(names, second.Name)
	}
	images, err := keeper.Images(e.ctx, first.Placement.Zone)
	e.need(err == nil, "images: %v", err)
	used := slices.DeleteFunc(images, func(i provider.BaseImage) bool { return len(i.UsedBy) == 0 })
	for _, name := range names {
		found := slices.ContainsFunc(used, func(i provider.BaseImage) bool { return strings.Contains(strings.Join(i.UsedBy, " "), name) })
		e.must("R2.12.1", found, "Images lists %+v: none is used by %s", images, name)
	}
	e.unchanged("R2.12.2", "RemoveImage of an image in use", func() {
		for _, image := range used {
			err := keeper.RemoveImage(e.ctx, first.Placement.Zone, image.Name)
			e.mustBe("R2.12.2", err, provider.ErrPermanent, provider.ReasonImageInUse, "RemoveImage of an image in use")
		}
	})
}

// imageRemoved removes every image of the zone before each backend call of a Create.
func imageRemoved(e *exam) {
	keeper, _ := provider.As[provider.ImageKeeper](e.h.Provider)
	want, ok := e.measure("R2.12.3")
	if !ok {
		return
	}
	nothing := func(n int) []Fault { return []Fault{{Kind: Nothing, First: n, Count: 1}} }
	e.everyCall(nothing, []string{"R2.12.3"}, func(s *sweep) {
		req := e.request()
		s.faults[0].Do = func(Call) {
			// A provider may let the removal wait for the Create that waits for it here.
			ctx, cancel := context.WithTimeout(e.ctx, within)
			defer cancel()
			images, err := keeper.Images(ctx, req.Placement.Zone)
			e.must("R2.12.3", err == nil, "Images during Create: %v", err)
			for _, image := range images {
				_ = keeper.RemoveImage(ctx, req.Placement.Zone, image.Name) // one that is used or being written stays
			}
		}
		if !s.arm() {
			return
		}
		_, _ = e.p.Create(e.ctx, req) // however it ends: what counts is the repetition
		s.disarm()
		_, err := e.settle(e.p, req)
		if !e.must("R2.12.3", err == nil, "%s: Create does not succeed when it is repeated: %v", s.at(), err) {
			return
		}
		found, _ := e.look("R2.12.3")
		mine := found.of(req.Name)
		e.must("R2.12.3", len(mine.instances()) == 1 && len(mine.kind(Resource)) == want.resources && len(found.kind(Shared)) > 0,
			"%s: the backend has %s and %s, want an instance and its image", s.at(), mine, found.kind(Shared))
		e.discard(req)
	})
}

// refusesAsGet tries that a call about one instance fails as Get does.
func (e *exam) refusesAsGet(rule, name string, call func(id string) error) {
	absent := e.create(e.request())
	e.need(e.remove(e.p, absent) == nil, "delete failed")
	ids := map[string]string{"a malformed ID": malformedIDs[0], "what is gone": absent}
	if id, ok := e.plant(e.request(), nil, rule); ok {
		ids["something without a mark"] = id
	}
	if id, ok := e.plant(e.request(), foreignMark(), rule); ok {
		ids["another owner's instance"] = id
	}
	if e.h.ElsewhereID != "" {
		ids["a host that is not configured"] = e.h.ElsewhereID
	}
	for what, id := range ids {
		_, want := e.p.Get(e.ctx, id)
		err := call(id)
		same := err != nil && errors.Is(err, provider.ClassOf(want)) && provider.ReasonOf(err) == provider.ReasonOf(want)
		e.must(rule, same, "%s of %s gives %v, Get %v", name, what, err, want)
	}
}

func readingConsole(e *exam) {
	consoler, _ := provider.As[provider.Consoler](e.h.Provider)
	read := func(id string) error {
		_, err := consoler.ReadConsole(e.ctx, id, 0, io.Discard)
		return err
	}
	e.refusesAsGet("R2.13.1", "ReadConsole", read)
	id := e.create(e.request())
	e.unchanged("R2.13.2", "ReadConsole", func() { _ = read(id) }) // an instance need not have a log
}

func reportingGuest(e *exam) {
	reporter, _ := provider.As[provider.GuestReporter](e.h.Provider)
	e.refusesAsGet("R2.14.1", "GuestReport", func(id string) error {
		_, err := reporter.GuestReport(e.ctx, id)
		return err
	})
	id := e.create(e.request())
	report, err := reporter.GuestReport(e.ctx, id)
	e.must("R2.14.2", err == nil && report.State == provider.GuestUnknown, "GuestReport of a guest that does not tell gives %+v, %v, want Unknown", report, err)
	e.must("R8.3.7", !e.seen.canary.in(fmt.Sprintf("%+v", report)), "GuestReport tells user-data: %+v", report)
	if e.h.GuestPrints == nil {
		e.lacks("guest that prints", "R8.3.7")
		return
	}
	if e.done(e.h.GuestPrints(e.ctx, id, e.seen.canary.text), "guest that prints", "R8.3.7") {
		report, err = reporter.GuestReport(e.ctx, id)
		text := fmt.Sprintf("%+v %v", report, err)
		e.must("R8.3.7", !e.seen.canary.in(text), "GuestReport tells what the guest printed: %s", text)
	}
}

func diagnosing(e *exam) {
	diagnoser, _ := provider.As[provider.Diagnoser](e.h.Provider)
	tried := func(what string) {
		for _, zone := range e.h.Zones {
			findings, err := diagnoser.Diagnose(e.ctx, zone)
			e.need(err == nil, "diagnose %s: %v", zone, err)
			for _, f := range findings {
				whole := camelCase.MatchString(f.Reason) && strings.Contains(f.Message, zone) && f.Remedy != ""
				e.must("R2.15.1", whole, "%s: the finding %+v has no reason, does not name the host %s, or has no remedy", what, f, zone)
			}
		}
	}
	e.create(e.request())
	e.unchanged("R2.15.2", "Diagnose", func() { tried("hosts as they are") })
	if e.h.Fill == nil {
		e.lacks("way to fill the backend", "R2.15.1")
		return
	}
	if e.done(e.h.Fill(e.ctx, e.h.Zones[0]), "way to fill the backend", "R2.15.1") {
		tried("a full host")
	}
}
