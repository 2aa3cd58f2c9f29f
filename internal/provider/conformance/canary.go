package conformance

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// canary is a text that stands in every user-data and nowhere else, so that user-data is recognised in
// whatever form it turns up.
type canary struct {
	text  string
	forms []string
}

func newCanary() *canary {
	text := "CANARY" + strings.ReplaceAll(uuid.New().String(), "-", "")
	return &canary{text: text, forms: formsOf(text)}
}

// userData is a small one that a guest could read.
func (c *canary) userData() provider.Secret {
	return provider.Secret("#cloud-config\nlocale: false\n# " + c.text + "\n")
}

// binary is 64 KiB with every byte value in it (R2.2.24).
func (c *canary) binary() provider.Secret {
	const size = 64 << 10
	out := []byte("#cloud-config\n# " + c.text + "\n#")
	for len(out) < size {
		out = append(out, byte(len(out)%256))
	}
	return out
}

// in reports whether the text holds the canary in any form.
func (c *canary) in(text string) bool { return holdsAny(text, c.forms) }

// hide takes the canary out of a text that a report shows.
func (c *canary) hide(text string) string {
	for _, form := range c.forms {
		text = strings.ReplaceAll(text, form, "[user-data]")
	}
	return text
}

// formsOf gives a secret as it is, in hex, in base64 at each of the three places where it can begin, and as the
// list of numbers that printing bytes gives.
func formsOf(secret string) []string {
	raw := []byte(secret)
	forms := []string{secret, hex.EncodeToString(raw), strings.ToUpper(hex.EncodeToString(raw)), strings.Trim(fmt.Sprintf("%d", raw), "[]")}
	for shift := range 3 {
		encoded := base64.StdEncoding.EncodeToString(append(make([]byte, shift), raw...))
		// The first characters depend on what stands before the secret, the last ones on what follows.
		const edge, enough = 4, 16
		if len(encoded) > 2*edge+enough {
			forms = append(forms, encoded[edge:len(encoded)-edge])
		}
	}
	return forms
}

func holdsAny(text string, forms []string) bool {
	for _, form := range forms {
		if form != "" && strings.Contains(text, form) {
			return true
		}
	}
	return false
}
