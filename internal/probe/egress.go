package probe

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"strings"
)

// egressFields are what the common "what is my address" services call it in JSON.
var egressFields = []string{"ip", "origin", "address", "ip_addr", "query"}

// egressIP finds the address in an answer: plain text, a JSON object with one of egressFields, or a line
// "ip=...". The zero Addr when there is none.
func egressIP(body []byte) netip.Addr {
	text := strings.TrimSpace(string(body))
	if addr := parseAddr(text); addr.IsValid() {
		return addr
	}
	if strings.HasPrefix(text, "{") {
		return fromJSON(body)
	}
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "ip="); ok {
			return parseAddr(value)
		}
	}
	return netip.Addr{}
}

func fromJSON(body []byte) netip.Addr {
	var object map[string]json.RawMessage
	// What follows the object, or is cut off, is no reason to lose the address; a broken object is.
	if err := json.NewDecoder(bytes.NewReader(body)).Decode(&object); err != nil {
		return netip.Addr{}
	}
	for _, field := range egressFields {
		var value string
		if err := json.Unmarshal(object[field], &value); err != nil {
			continue // absent, or something else of that name
		}
		if addr := parseAddr(value); addr.IsValid() {
			return addr
		}
	}
	return netip.Addr{}
}

// parseAddr reads an address, or the first of several: a list means that proxies told of their clients.
func parseAddr(text string) netip.Addr {
	first, _, _ := strings.Cut(text, ",")
	addr, err := netip.ParseAddr(strings.TrimSpace(first))
	if err != nil || addr.Zone() != "" {
		return netip.Addr{}
	}
	return addr.Unmap()
}
