// Package conformance is the provider contract (docs/provider-contract.md) as a suite: a case for every MUST of
// its sections 2 and 8, for any provider, with no cluster. A provider's author gives a Harness, which is the
// provider, a way to look at its backend without it, and whatever can be done to that backend behind its back:
//
//	func TestConformance(t *testing.T) {
//		conformance.Run(t, func(ctx context.Context, s conformance.Setup) (*conformance.Harness, error) {
//			return newHarness(s)
//		})
//	}
//
// Each case gets a harness of its own and tells, rule by rule, how it went. What a harness cannot do is optional:
// a rule that cannot be shown without it is reported as not shown, with what is missing, and never as passed. A
// rule whose condition names an axis code or an optional interface that the provider does not have is not
// applicable.
//
// The core (Prove) does not import testing, so that egressctl can run the safe part against a user's own host.
package conformance
