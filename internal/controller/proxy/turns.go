package proxy

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// turns lets one Proxy of each entry be replaced at a time.
type turns struct {
	mu     sync.Mutex
	holder map[string]types.UID
}

// take gives a Proxy its entry's turn, or says that another one has it.
func (t *turns) take(entry string, uid types.UID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	holder, held := t.holder[entry]
	if held && holder != uid {
		return false
	}
	if t.holder == nil {
		t.holder = map[string]types.UID{}
	}
	t.holder[entry] = uid
	return true
}

// give ends a Proxy's turn, if it has it.
func (t *turns) give(entry string, uid types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.holder[entry] == uid {
		delete(t.holder, entry)
	}
}
