package kvm2

import "time"

// limits bound every wait of the transport. Tests shorten them.
type limits struct {
	// handshake covers TCP connect, banner, key exchange and authentication together.
	handshake time.Duration
	// open covers a forwarded channel and libvirt's greeting on it.
	open time.Duration
	// rpc covers one libvirt call, domain one about a domain, domainCreate the one that starts a guest,
	// upload one transfer. libvirt waits 30 s for another job on the domain before it answers
	// (ErrOperationTimeout): giving up just before that would cost the connection for one busy domain.
	rpc, domain, domainCreate, upload time.Duration
	// closing is how long the far end may take to acknowledge a close before TCP is cut.
	closing time.Duration
	// keepaliveEvery is the time between two SSH keepalives. The link is cut when keepaliveMisses of
	// them in a row pass without an answer.
	keepaliveEvery  time.Duration
	keepaliveMisses int
}

func defaultLimits() limits {
	return limits{
		handshake:       10 * time.Second,
		open:            10 * time.Second,
		rpc:             30 * time.Second,
		domain:          40 * time.Second,
		domainCreate:    90 * time.Second,
		upload:          20 * time.Minute,
		closing:         2 * time.Second,
		keepaliveEvery:  15 * time.Second,
		keepaliveMisses: 3,
	}
}

// How many calls may be in flight on one libvirt connection. libvirtd serves five per client
// (max_client_requests); a guest agent that does not answer must not take all of them.
const (
	maxCalls      = 4
	maxAgentCalls = 2
)
