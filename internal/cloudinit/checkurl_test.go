package cloudinit

import (
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseCheckURL(t *testing.T) {
	for url, want := range map[string]check{
		"http://Check.Example.net":              {Method: "GET", Host: "check.example.net", Port: 80, PathPattern: "^/$"},
		"http://check.example.net:8081/ip?f=a+": {Method: "GET", Host: "check.example.net", Port: 8081, PathPattern: "^/ip[?]f=a[+]$"},
		"http://check.example.net/?q":           {Method: "GET", Host: "check.example.net", Port: 80, PathPattern: "^/[?]q$"},
		"https://check.example.net/any":         {Method: "CONNECT", Host: "check.example.net", Port: 443},
		"https://check.example.net:8443":        {Method: "CONNECT", Host: "check.example.net", Port: 8443},
		"http://[2606:2800::0:1]/":              {Method: "GET", Host: "2606:2800::1", Port: 80, PathPattern: "^/$"},
		"http://[::ffff:192.0.2.1]/":            {Method: "GET", Host: "192.0.2.1", Port: 80, PathPattern: "^/$"},
	} {
		got, err := parseCheckURL(url)
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want, +got:\n%s", url, diff)
		}
	}
}

func TestLiteral(t *testing.T) {
	const text = `/a.b?c=$d&e=(f)*+;g,h:@!'~_-`
	pattern := regexp.MustCompilePOSIX(literal(text))
	if !pattern.MatchString(text) {
		t.Errorf("%s does not match its own text", pattern)
	}
	for _, other := range []string{text + "x", "x" + text, "/aXb?c=$d&e=(f)*+;g,h:@!'~_-", "/a.b"} {
		if pattern.MatchString(other) {
			t.Errorf("%s matches %q too", pattern, other)
		}
	}
}
