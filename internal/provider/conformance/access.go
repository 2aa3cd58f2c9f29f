package conformance

import "gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"

var accessCases = []Case{
	{Name: "credentials that are refused", Rules: []string{"R8.1.7"}, try: accessRefused},
	{Name: "a credential file that is missing", Rules: []string{"R8.1.8"}, try: accessMissing},
	{Name: "a credential file that is malformed", Rules: []string{"R8.1.9"}, try: accessMalformed},
	{Name: "another identity at the far end", Rules: []string{"R8.1.10"}, try: accessWrongPeer},
}

func accessRefused(e *exam) {
	e.access("R8.1.7", Refused, provider.ErrPermanent, "")
}

func accessMissing(e *exam) {
	e.access("R8.1.8", FileMissing, provider.ErrTransient, provider.ReasonCredentialsUnavailable)
}

func accessMalformed(e *exam) {
	e.access("R8.1.9", FileMalformed, provider.ErrPermanent, provider.ReasonCredentialsInvalid)
}

func accessWrongPeer(e *exam) {
	e.access("R8.1.10", WrongPeer, provider.ErrPermanent, "")
}

// access tries every method of a provider whose way in is spoilt.
func (e *exam) access(rule string, access Access, class error, reason string) {
	id := e.create(e.request())
	p, ok := e.build(Variation{Access: access}, "provider with "+string(access), rule)
	if !ok {
		return
	}
	for _, m := range methods {
		err := m.call(e.ctx, p, e.request(), id)
		e.mustBe(rule, err, class, reason, m.name+" with "+string(access))
	}
}
