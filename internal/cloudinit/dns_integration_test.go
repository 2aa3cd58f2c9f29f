//go:build integration

package cloudinit_test

import (
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// answer gives a name's addresses for its nth question of that type, from 0.
type answer func(n int) []netip.Addr

// dns is squid's resolver.
type dns struct {
	mu    sync.Mutex
	names map[string]answer // lower case, no trailing dot
	asked map[string]int    // name and type
	ttl   uint32            // seconds
	// reverseDelay is how long a reverse lookup waits for its answer, which is that there is none.
	reverseDelay time.Duration
}

// always answers with the same addresses.
func always(addrs ...string) answer {
	return func(int) []netip.Addr { return parseAddrs(addrs) }
}

func parseAddrs(texts []string) []netip.Addr {
	var out []netip.Addr
	for _, text := range texts {
		out = append(out, netip.MustParseAddr(text))
	}
	return out
}

// startDNS serves names on 127.0.0.53, where systemd-resolved would.
func startDNS(t *testing.T, names map[string]answer) *dns {
	t.Helper()
	conn, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.53:53")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	d := &dns{names: names, asked: map[string]int{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			reply, delay := d.reply(buf[:n])
			time.AfterFunc(delay, func() { conn.WriteTo(reply, from) })
		}
	}()
	t.Cleanup(func() { conn.Close(); <-done })
	return d
}

func (d *dns) reply(query []byte) ([]byte, time.Duration) {
	var m dnsmessage.Message
	if err := m.Unpack(query); err != nil || len(m.Questions) != 1 {
		return nil, 0
	}
	q := m.Questions[0]
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	name := strings.ToLower(strings.TrimSuffix(q.Name.String(), "."))
	addrs, found := d.lookup(name, q.Type)
	if !found {
		m.RCode = dnsmessage.RCodeNameError
	}
	for _, a := range addrs {
		header := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: dnsmessage.ClassINET, TTL: d.ttl}
		if q.Type == dnsmessage.TypeA && a.Is4() {
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: a.As4()}})
		}
		if q.Type == dnsmessage.TypeAAAA && !a.Is4() {
			m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AAAAResource{AAAA: a.As16()}})
		}
	}
	out, err := m.Pack()
	if err != nil {
		return nil, 0
	}
	if q.Type == dnsmessage.TypePTR {
		return out, d.reverseDelay
	}
	return out, 0
}

func (d *dns) lookup(name string, qtype dnsmessage.Type) ([]netip.Addr, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	key := name + " " + qtype.String()
	n := d.asked[key]
	d.asked[key]++
	f, ok := d.names[name]
	if !ok {
		return nil, false
	}
	return f(n), true
}

// questions says how often name's addresses were asked for.
func (d *dns) questions(name string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.asked[name+" "+dnsmessage.TypeA.String()]
}
