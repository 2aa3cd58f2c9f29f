package provider

import "sync"

// use counts the calls of a provider that are under way, so that one whose entry changed is closed
// after the last of them and not below it.
type use struct {
	mu      sync.Mutex
	calls   int
	retired func() // set once no further call may begin; called after the last one
}

// begin counts a call in. The error says that the provider takes none any more.
func (u *use) begin() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.retired != nil {
		return Errorf(ErrTransient, ReasonConfigChanged, "the entry of the providers file was changed meanwhile: the next try uses the new one")
	}
	u.calls++
	return nil
}

func (u *use) end() {
	u.mu.Lock()
	u.calls--
	last := u.calls == 0 && u.retired != nil
	done := u.retired
	u.mu.Unlock()
	if last {
		done()
	}
}

// retire lets no further call begin, and calls done after the last one under way, or now.
func (u *use) retire(done func()) {
	u.mu.Lock()
	idle := u.calls == 0 && u.retired == nil
	u.retired = done
	u.mu.Unlock()
	if idle {
		done()
	}
}
