package static

import (
	"context"
	"errors"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// found is what stands under a name.
type found struct {
	// link is the lease under its second name; nil where there is none.
	link *record
	// held is the endpoint's lease that link belongs to; nil where that is gone.
	held *record
	// claims are the endpoints' leases of the name, held included. Without a link they are what an interrupted create
	// or delete left, or one under way. They are looked for where there is no link, or where all were asked for.
	claims []*record
	// taken are the files of all endpoints' leases, where they were looked for.
	taken map[string]bool
}

// instance is the one that stands under the name: the one that runs, else one that is half way. nil is none.
func (f *found) instance() *record {
	switch {
	case f.held != nil:
		return f.held
	case f.link == nil && len(f.claims) > 0:
		return f.claims[0]
	}
	return nil
}

// find looks under a name. An error is a doubt, and none of it says that nothing is there.
func (p *Provider) find(ctx context.Context, at place, all bool) (*found, error) {
	f := &found{}
	var err error
	if f.link, err = p.record(ctx, at.zone, at.instanceFile()); err != nil {
		return nil, err
	}
	if f.link != nil {
		claim, err := p.record(ctx, at.zone, claimFile(f.link.Address, f.link.Port))
		if err != nil {
			return nil, err
		}
		if claim != nil && claim.Token == f.link.Token {
			f.held = claim
		}
		if !all {
			return f, nil
		}
	}
	f.taken, f.claims, err = p.claimsOf(ctx, at)
	return f, err
}

// claimsOf reads all endpoints' leases for those of a name. A file that is no lease tells no name; it keeps its
// endpoint taken.
func (p *Provider) claimsOf(ctx context.Context, at place) (taken map[string]bool, claims []*record, err error) {
	files, err := p.store.Claims(ctx, at.zone)
	if err != nil {
		return nil, nil, classify(at.zone, "list the leases", err)
	}
	taken = map[string]bool{}
	for _, file := range files {
		taken[file] = true
		r, err := p.record(ctx, at.zone, file)
		switch {
		case provider.ReasonOf(err) == ReasonLeaseUnreadable:
		case err != nil:
			return nil, nil, err
		case r != nil && r.place() == at:
			claims = append(claims, r)
		}
	}
	return taken, claims, nil
}

// record reads a lease's file; nil is none.
func (p *Provider) record(ctx context.Context, zone, file string) (*record, error) {
	content, err := p.store.Read(ctx, zone, file)
	if errors.Is(err, errAbsent) {
		return nil, nil
	}
	if err != nil {
		return nil, classify(zone, "read "+file, err)
	}
	r, err := decode(file, content)
	return r, classify(zone, "read a lease", err)
}
