package conformance

import (
	"regexp"
	"slices"
	"strings"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// Rule is a MUST of the contract's sections 2 or 8.
type Rule struct {
	// ID as "R2.2.4".
	ID string
	// Condition is an axis with codes, or an optional interface; empty for a rule that always holds.
	Condition string
	Text      string
}

// rules are those of the contract; rules_gen.go holds them.

// Rules gives the rules that the suite knows, in the contract's order.
func Rules() []Rule { return slices.Clone(rules) }

func ruleByID(id string) (Rule, bool) {
	i := slices.IndexFunc(rules, func(r Rule) bool { return r.ID == id })
	if i < 0 {
		return Rule{}, false
	}
	return rules[i], true
}

// has says which optional interfaces a provider has.
var has = map[string]func(provider.Provider) bool{
	"Checker":       is[provider.Checker],
	"Identifier":    is[provider.Identifier],
	"Watcher":       is[provider.Watcher],
	"Renderer":      is[provider.Renderer],
	"Closer":        is[provider.Closer],
	"Guarder":       is[provider.Guarder],
	"ImageKeeper":   is[provider.ImageKeeper],
	"Consoler":      is[provider.Consoler],
	"GuestReporter": is[provider.GuestReporter],
	"Diagnoser":     is[provider.Diagnoser],
	"Preconfigured": is[provider.Preconfigured],
}

func is[T any](p provider.Provider) bool {
	_, ok := provider.As[T](p)
	return ok
}

var quotedName = regexp.MustCompile("^`([^`]*)`(.*)$")

// inapplicable says why a rule does not hold for the harness's provider, or "".
func (r Rule) inapplicable(h *Harness) string {
	if why := h.exempt(r.ID); why != "" {
		return why
	}
	m := quotedName.FindStringSubmatch(r.Condition)
	if m == nil {
		return ""
	}
	name := m[1]
	if provides, ok := has[name]; ok {
		if !provides(h.Provider) {
			return "no " + name
		}
		return ""
	}
	for _, code := range strings.Split(m[2], ",") {
		if strings.TrimSpace(code) == h.Axes[name] {
			return ""
		}
	}
	return name + " " + h.Axes[name]
}

// exempt has what the contract's section 10 lets a provider leave out by its gc-mark (R10.3).
func (h *Harness) exempt(id string) string {
	if h.Axes["gc-mark"] == "lease-record" && id == "R2.2.24" {
		return "gc-mark lease-record (R10.3)"
	}
	return ""
}
