package egressctl

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// reader answers Get alone.
type reader struct {
	provider.Provider
	known map[string]provider.Instance
}

func (r reader) Get(_ context.Context, id string) (provider.Instance, error) {
	if i, ok := r.known[id]; ok {
		return i, nil
	}
	return provider.Instance{}, errors.New("the guest agent does not answer")
}

func TestList_asksForTheAddressesThatAListLeavesOut(t *testing.T) {
	running := provider.Instance{ID: "a", State: provider.StateRunning, Addresses: []string{"192.0.2.7"}}
	silent := provider.Instance{ID: "b", State: provider.StateProvisioning}
	stopped := provider.Instance{ID: "c", State: provider.StateStopped}
	got := addressed(t.Context(), reader{known: map[string]provider.Instance{"a": running}},
		[]provider.Instance{{ID: "a", State: provider.StateProvisioning}, silent, stopped})
	if diff := cmp.Diff([]provider.Instance{running, silent, stopped}, got); diff != "" {
		t.Errorf("a running instance has its address, one that cannot be read stays as listed: -want, +got:\n%s", diff)
	}
}
