package conformance

import "slices"

// Case is one set-up that tries one or several rules.
type Case struct {
	// Name of the sub-test; a sub-test per rule is below it.
	Name string
	// Rules that it tries.
	Rules []string
	// Safe cases only make instances of their own on a host, a few at a time, and take them away again. They need
	// nothing of the harness but the provider.
	Safe bool

	try func(*exam)
}

// Cases gives all cases in the order in which they run. The last one is about everything that the others saw.
func Cases() []Case {
	return slices.Concat(
		createCases, createCutCases, createConflictCases, createRefuseCases, createAsyncCases,
		getCases, getDoubtCases, getAddressCases, deleteCases, deleteForeignCases, deleteCutCases,
		listCases, everyCases, contextCases, checkCases, optionalCases, firstDayCases,
		preconfiguredCases, accessCases, logCases, spanCases, observedCases,
	)
}
