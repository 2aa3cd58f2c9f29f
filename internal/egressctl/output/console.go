package output

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Console writes what a guest printed so that a terminal shows it as text: escape sequences are left
// out, other control characters become U+FFFD, and a lone carriage return begins a line. It goes on
// inside a sequence or a character that one Write ends in. By hand: the libraries that strip sequences
// take whole strings, and a console comes in pieces.
type Console struct {
	W io.Writer

	state    consoleState
	held     []byte // the start of a character
	returned bool
}

type consoleState int

const (
	plain   consoleState = iota
	escape               // after ESC
	control              // in a control sequence, ESC [
	text                 // in a string that ends with BEL or ESC \: a window's title
	textEnd              // after ESC inside such a string
)

// Write never keeps more than a few bytes back.
func (c *Console) Write(p []byte) (int, error) {
	var out bytes.Buffer
	data := slices.Concat(c.held, p)
	for len(data) > 0 {
		if !utf8.FullRune(data) {
			break
		}
		r, size := utf8.DecodeRune(data)
		data = data[size:]
		c.take(&out, r)
	}
	c.held = bytes.Clone(data)
	if _, err := c.W.Write(out.Bytes()); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (c *Console) take(out *bytes.Buffer, r rune) {
	switch c.state {
	case escape:
		c.state = afterEscape(r)
	case control:
		switch {
		case r == '\n': // cut off: a sequence has no line breaks
			c.state = plain
			out.WriteByte('\n')
		case r >= '@' && r <= '~':
			c.state = plain
		}
	case text:
		switch r {
		case '\n': // cut off as well
			c.state = plain
			out.WriteByte('\n')
		case '\a':
			c.state = plain
		case 0x1b:
			c.state = textEnd
		}
	case textEnd:
		c.state = plain
	case plain:
		c.show(out, r)
	}
}

func afterEscape(r rune) consoleState {
	switch {
	case r == '[':
		return control
	case strings.ContainsRune("]PX^_", r):
		return text
	case r >= ' ' && r <= '/': // an intermediate: one more follows
		return escape
	}
	return plain
}

func (c *Console) show(out *bytes.Buffer, r rune) {
	wasReturn := c.returned
	c.returned = r == '\r'
	switch r {
	case '\n', '\r':
		if !c.returned || !wasReturn {
			if r == '\n' && wasReturn {
				return // its line was ended
			}
			out.WriteByte('\n')
		}
	case '\t':
		out.WriteByte('\t')
	case 0x1b:
		c.state = escape
	case 0x9b: // ESC [ in one
		c.state = control
	default:
		if !unicode.IsPrint(r) {
			r = unicode.ReplacementChar
		}
		out.WriteRune(r)
	}
}
