package kvm2

import (
	"context"
	"sync"
	"sync/atomic"
)

// readsInFlight is how many domains of one host are read at once. The connection has a lower limit of
// its own for what is on the wire.
const readsInFlight = 16

// reading is one domain of a host with what its definition says, or why it could not be read.
type reading struct {
	dom  domain
	info domainInfo
	err  error
}

// readDomains reads all domains and gives the results in the same order. When ctx ends or the
// connection dies, the rest fail at once.
func readDomains(ctx context.Context, c backend, domains []domain) []reading {
	out := make([]reading, len(domains))
	var next atomic.Int64
	var readers sync.WaitGroup
	for range min(readsInFlight, len(domains)) {
		readers.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(domains) {
					return
				}
				info, err := readDomain(ctx, c, domains[i])
				out[i] = reading{dom: domains[i], info: info, err: err}
			}
		})
	}
	readers.Wait()
	return out
}
