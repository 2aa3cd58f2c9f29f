package kvm2

import (
	"errors"
	"time"
)

// errNoKeepalive: the host stopped answering without closing anything, as after a loss of power.
var errNoKeepalive = errors.New("the host answered no SSH keepalive")

// keepAlive pings until done. libvirt's own keepalive is neither offered nor answered by the library,
// so SSH's has to notice a dead host: after keepaliveMisses intervals in a row in which a ping stayed
// without an answer it calls cut, once. Only one ping is ever on its way, so that a silent host
// does not pile them up.
func keepAlive(l limits, done <-chan struct{}, ping func() error, cut func()) {
	ticker := time.NewTicker(l.keepaliveEvery)
	defer ticker.Stop()
	answered := make(chan error, 1)
	waiting, misses := false, 0
	for {
		select {
		case <-done:
			return
		case err := <-answered:
			if err != nil {
				cut()
				return
			}
			waiting, misses = false, 0
		case <-ticker.C:
			if !waiting {
				waiting = true
				go func() { answered <- ping() }()
				continue
			}
			if misses++; misses == l.keepaliveMisses {
				cut()
				return
			}
		}
	}
}
