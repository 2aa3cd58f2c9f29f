package output_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl/output"
)

func TestClean(t *testing.T) {
	cases := map[string]struct{ reason, in, want string }{
		"Plain":    {"ordinary text stays", "a host: größer", "a host: größer"},
		"Lines":    {"a line break cannot fake a line", "a\n\tb\r\nc", "a b c"},
		"Escape":   {"an escape sequence cannot move the cursor", "a\x1b[2Kb", "a\uFFFD[2Kb"},
		"Override": {"a direction override cannot hide text", "a\u202eb", "a\uFFFDb"},
		"Invalid":  {"bytes that are not UTF-8 do not pass", "a\xffb", "a\uFFFDb"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, output.Clean(tc.in)); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestTable(t *testing.T) {
	var b strings.Builder
	err := output.Table(&b, []string{"NAME", "STATE", "ID"}, [][]string{{"berlin-1", "", "x\ny"}, {"b", "Running", "z"}})
	if err != nil {
		t.Fatal(err)
	}
	want := "NAME       STATE     ID\nberlin-1   -         x y\nb          Running   z\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

func TestStructure(t *testing.T) {
	value := struct {
		Name string   `json:"name"`
		List []string `json:"list"`
	}{"a", []string{"b"}}
	for format, want := range map[output.Format]string{
		output.FormatJSON: "{\n  \"name\": \"a\",\n  \"list\": [\n    \"b\"\n  ]\n}\n",
		output.FormatYAML: "list:\n- b\nname: a\n",
	} {
		var b strings.Builder
		if err := output.Structure(&b, format, value); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, b.String()); diff != "" {
			t.Errorf("%s: -want, +got:\n%s", format, diff)
		}
	}
}

func TestUnits(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	for want, got := range map[string]string{
		"0 B":     output.Bytes(0),
		"1023 B":  output.Bytes(1023),
		"1.5 KiB": output.Bytes(1536),
		"435 MiB": output.Bytes(435 << 20),
		"2.0 TiB": output.Bytes(2 << 40),
		"0s":      output.Elapsed(900 * time.Millisecond),
		"3m05s":   output.Elapsed(185 * time.Second),
		"1h02m":   output.Elapsed(62 * time.Minute),
		"":        output.Age(now, time.Time{}),
		"119s":    output.Age(now, now.Add(-119*time.Second)),
		"119m":    output.Age(now, now.Add(-119*time.Minute)),
		"47h":     output.Age(now, now.Add(-47*time.Hour)),
		"9d":      output.Age(now, now.Add(-9*24*time.Hour)),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := output.Age(now, now.Add(time.Hour)); got != "0s" {
		t.Errorf("something made in the future, by another clock, is %q old, want 0s", got)
	}
}

func TestConsole(t *testing.T) {
	cases := map[string]struct{ reason, in, want string }{
		"Plain":     {"text, tabs and lines stay", "a\tb: größer\n", "a\tb: größer\n"},
		"Returns":   {"a serial line ends with both", "a\r\nb\r\n", "a\nb\n"},
		"Overwrite": {"a lone return hides nothing", "secret\rharmless\n", "secret\nharmless\n"},
		"Colour":    {"systemd's colours go", "[\x1b[0;32m  OK  \x1b[0m] Started\n", "[  OK  ] Started\n"},
		"Screen":    {"firmware clears no screen", "\x1b[2J\x1b[01;01H\x1b[=3hBdsDxe\n", "BdsDxe\n"},
		"Title":     {"a window keeps its title", "\x1b]0;owned\aa\x1b]0;owned\x1b\\b\n", "ab\n"},
		"Charset":   {"nor its character set", "\x1b(0a\x1bMb\n", "ab\n"},
		"OneByte":   {"the short form is a sequence too", "\u009b31mred\n", "red\n"},
		"Bell":      {"other control characters are seen", "a\ab\x00c\x7f\n", "a\uFFFDb\uFFFDc\uFFFD\n"},
		"Override":  {"a direction override hides no text", "a\u202eb\n", "a\uFFFDb\n"},
		"Invalid":   {"bytes that are not UTF-8 do not pass", "a\xffb\n", "a\uFFFDb\n"},
		"Cut":       {"a sequence without an end hides no further line", "a\x1b[31\nb\x1b]0;x\nc\n", "a\nb\nc\n"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int{1, 2, 3, 1 << 10} { // as it may come
				var b strings.Builder
				c := &output.Console{W: &b}
				for rest := tc.in; rest != ""; {
					n := min(size, len(rest))
					if _, err := c.Write([]byte(rest[:n])); err != nil {
						t.Fatal(err)
					}
					rest = rest[n:]
				}
				if diff := cmp.Diff(tc.want, b.String()); diff != "" {
					t.Errorf("%s, in pieces of %d: -want, +got:\n%s", tc.reason, size, diff)
				}
			}
		})
	}
}
