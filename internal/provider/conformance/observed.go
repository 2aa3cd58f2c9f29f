package conformance

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

var observedCases = []Case{{
	Name: "every call so far", Safe: true,
	Rules: []string{
		"R2.2.1", "R2.2.26", "R2.4.15", "R8.1.1", "R8.1.2", "R8.1.3", "R8.1.4",
		"R8.3.1", "R8.3.2", "R8.3.3", "R8.3.5", "R8.3.6",
	},
	try: observed,
}}

var classes = []error{provider.ErrNotFound, provider.ErrTransient, provider.ErrPermanent, provider.ErrQuotaExceeded}

// observed tries what holds for every call, on all that the cases before have seen.
func observed(e *exam) {
	e.seen.mu.Lock()
	outcomes, lines, checks := e.seen.outcomes, e.seen.lines, e.seen.checks
	e.seen.mu.Unlock()
	secrets := e.secretForms()
	var urls []string
	for _, secret := range e.h.URLSecrets {
		urls = append(urls, formsOf(secret)...)
	}
	if len(urls) == 0 {
		e.lacks("URL with a query or a user", "R8.3.6")
	}
	// free tries that a text holds no secret, and no part of a URL that is one.
	free := func(rule, what, text string) {
		e.must(rule, !holdsAny(text, secrets), "%s holds a secret: %s", what, hide(text, secrets))
		if len(urls) > 0 {
			e.must("R8.3.6", !holdsAny(text, urls), "%s holds a part of a URL that is a secret: %s", what, hide(text, urls))
		}
	}
	for _, o := range outcomes {
		at := o.method + " in " + o.during
		switch o.method {
		case "Create":
			e.must("R2.2.1", (o.err == nil) == (o.id != ""), "%s gives the ID %q with %v", at, o.id, o.err)
			e.must("R2.2.26", !errors.Is(o.err, provider.ErrNotFound), "%s gives %v", at, o.err)
		case "Delete":
			e.must("R2.4.15", !errors.Is(o.err, provider.ErrNotFound), "%s gives %v", at, o.err)
		}
		if o.err != nil {
			e.mustBeTyped(o, at)
			free("R8.3.2", "the error of "+at, o.err.Error()+" "+provider.ReasonOf(o.err))
		}
	}
	for _, l := range lines {
		free("R8.3.1", "a log line", l.text)
	}
	spans, _ := e.seen.spans.from(0)
	for _, s := range spans {
		free("R8.3.3", "the span "+s.Name(), spanText(s))
	}
	if len(spans) == 0 {
		e.must("R8.3.3", true, "") // there is no span that could hold one
	}
	for _, c := range checks {
		free("R8.3.5", "the check of "+c.Host, fmt.Sprintf("%+v", c))
	}
}

// mustBeTyped tries the form of an error.
func (e *exam) mustBeTyped(o outcome, at string) {
	var typed *provider.Error
	is := errors.As(o.err, &typed)
	e.must("R8.1.1", is, "%s gives %v, which is no *provider.Error", at, o.err)
	n := 0
	for _, class := range classes {
		if errors.Is(o.err, class) {
			n++
		}
	}
	e.must("R8.1.2", n == 1, "%s gives %v, which matches %d classes", at, o.err, n)
	if !is {
		return
	}
	named := typed.Provider == o.name && strings.HasPrefix(o.err.Error(), o.name)
	e.must("R8.1.3", named, "%s gives the error %q, which does not carry and begin with the entry's name %s", at, o.err, o.name)
	e.must("R8.1.4", camelCase.MatchString(typed.Reason), "%s gives the reason %q of %v", at, typed.Reason, o.err)
}

// secretForms are what must appear nowhere.
func (e *exam) secretForms() []string {
	forms := slices.Clone(e.seen.canary.forms)
	for _, secret := range e.h.Credentials {
		forms = append(forms, formsOf(secret)...)
	}
	return forms
}

func hide(text string, secrets []string) string {
	for _, secret := range secrets {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "[secret]")
		}
	}
	return text
}
