package conformance

// Faults sits between the provider's logic and its backend, where the test seam is (contract 4.15), sees every
// backend call, and makes those go wrong that it is armed for. It is safe for concurrent use.
type Faults interface {
	// Arm adds a fault, or returns errors.ErrUnsupported for one that it cannot make.
	Arm(f Fault) error
	// Disarm removes all faults. A call that hangs goes on as if nothing had been.
	Disarm()
	// Calls gives the backend calls so far, in order of arrival, those that went wrong included.
	Calls() []Call
}

// Fault is what happens to some of the calls.
type Fault struct {
	Kind FaultKind
	// Host it concerns; "" is any.
	Host string
	// First is the number of the first call that it meets, counted on its Host from Arm, from 1.
	First int
	// Count is how many calls it meets; 0 is First and every later one.
	Count int
	// Do runs before the call has any effect, in the goroutine of the call, with no lock held: somebody else
	// does something meanwhile. It may call the provider.
	Do func(Call)
}

// FaultKind is how a call goes wrong.
type FaultKind string

// The kinds of faults.
const (
	// Nothing: the call goes on. For Do.
	Nothing FaultKind = "nothing"
	// Strange: the backend refuses with an error that the provider does not know.
	Strange FaultKind = "an unknown error"
	// Denied: the backend refuses for good.
	Denied FaultKind = "refused for good"
	// Busy: the backend has no time.
	Busy FaultKind = "busy"
	// Missing: the backend says that what the call is about does not exist.
	Missing FaultKind = "said to be missing"
	// Garbled: the answer cannot be understood.
	Garbled FaultKind = "an answer that is not understood"
	// Dropped: the connection is lost before the call has any effect.
	Dropped FaultKind = "connection lost"
	// Lost: the call takes effect, and the connection is lost before its answer.
	Lost FaultKind = "answer lost"
	// Late: the call's own limit passes before any effect.
	Late FaultKind = "limit passed"
	// Hanging: there is no answer until the call's context ends or Disarm.
	Hanging FaultKind = "no answer"
	// Unreachable: no connection can be made, and those that there were are lost. It concerns every call on
	// the host, whatever First and Count are.
	Unreachable FaultKind = "unreachable"
)

// Call is one backend call.
type Call struct {
	Host string
	// Name as the call's span and log line have it, without the type of the entry.
	Name string
	Kind CallKind
}

// CallKind is what a call is for.
type CallKind string

// The kinds of calls.
const (
	Read    CallKind = "read"
	Change  CallKind = "change"
	Address CallKind = "address" // a read that only looks for addresses
)
