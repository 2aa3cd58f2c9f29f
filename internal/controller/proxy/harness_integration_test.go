//go:build integration

package proxy_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/api/v1alpha1"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider/fake"
)

const (
	userName     = "alice"
	userPassword = "p@ss:wörd/canary-7f3a"
)

var worlds, lastOctet atomic.Int32

// world is one test's namespace, entry and backend.
type world struct {
	t         *testing.T
	namespace string
	entry     string
	backend   *fake.Backend
}

func newWorld(t *testing.T) *world {
	t.Helper()
	n := worlds.Add(1)
	w := &world{t: t, namespace: fmt.Sprintf("test-%d", n), entry: fmt.Sprintf("entry-%d", n), backend: fake.NewBackend()}
	w.backend.HoldAddresses()
	w.configure()
	t.Cleanup(func() { entries.set(w.entry, nil) })
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}})
	w.create(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "auth"},
		Data:       map[string][]byte{"username": []byte(userName), "password": []byte(userPassword)},
	})
	return w
}

// configure adds the world's entry.
func (w *world) configure() {
	entries.set(w.entry, fake.New(w.entry, fake.WithBackend(w.backend), fake.WithOwner(owner)))
}

func (w *world) create(o client.Object) {
	w.t.Helper()
	if err := admin.Create(w.t.Context(), o); err != nil {
		w.t.Fatalf("create %T %s: %v", o, o.GetName(), err)
	}
}

// proxy builds a Proxy of this world with password authentication.
func (w *world) proxy(name string, edits ...func(*v1alpha1.Proxy)) *v1alpha1.Proxy {
	p := &v1alpha1.Proxy{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec: v1alpha1.ProxySpec{
			Provider:  w.entry,
			Placement: v1alpha1.Placement{Zone: fake.DefaultZone, MachineType: fake.DefaultMachineType, Image: fake.DefaultImage},
			Auth:      &v1alpha1.ProxyAuth{SecretRef: v1alpha1.SecretReference{Name: "auth"}},
		},
	}
	for _, edit := range edits {
		edit(p)
	}
	return p
}

// apply creates a Proxy.
func (w *world) apply(name string, edits ...func(*v1alpha1.Proxy)) *v1alpha1.Proxy {
	w.t.Helper()
	p := w.proxy(name, edits...)
	w.create(p)
	return p
}

// ready applies a Proxy, gives its instance an address once it is there, and waits until it is Ready.
func (w *world) ready(name string, edits ...func(*v1alpha1.Proxy)) *v1alpha1.Proxy {
	w.t.Helper()
	w.apply(name, edits...)
	p := w.until(name, "has an instance", func(p *v1alpha1.Proxy) bool {
		_, found := w.backend.Look(p.Status.ProviderID)
		return found
	})
	w.address(p)
	return w.untilCondition(name, v1alpha1.ConditionReady, metav1.ConditionTrue, "")
}

// address gives the instance of a Proxy an address that no other one has.
func (w *world) address(p *v1alpha1.Proxy) string {
	n := lastOctet.Add(1)
	addr := fmt.Sprintf("198.51.%d.%d", 100+n/250, 1+n%250)
	w.backend.SetAddresses(p.Status.ProviderID, addr)
	return addr
}

// limit is how long anything that is waited for may take on a busy machine.
const limit = 60 * time.Second

// poll asks until ok says yes; what is said when it never does.
func (w *world) poll(what func() string, ok func(ctx context.Context) bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), limit)
	defer cancel()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for !ok(ctx) {
		select {
		case <-ctx.Done():
			w.t.Fatalf("within %s not: %s", limit, what())
		case <-ticker.C:
		}
	}
}

func (w *world) get(ctx context.Context, name string) (*v1alpha1.Proxy, error) {
	var p v1alpha1.Proxy
	err := admin.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, &p)
	return &p, err
}

// until waits for something about a Proxy.
func (w *world) until(name, what string, ok func(*v1alpha1.Proxy) bool) *v1alpha1.Proxy {
	w.t.Helper()
	p := &v1alpha1.Proxy{}
	w.poll(func() string { return fmt.Sprintf("%s %s; status: %+v", name, what, p.Status) }, func(ctx context.Context) bool {
		got, err := w.get(ctx, name)
		if err != nil {
			return false
		}
		p = got
		return ok(p)
	})
	return p
}

// untilCondition waits for a condition; an empty reason matches any.
func (w *world) untilCondition(name, kind string, status metav1.ConditionStatus, reason string) *v1alpha1.Proxy {
	w.t.Helper()
	return w.until(name, fmt.Sprintf("has %s=%s (%s)", kind, status, reason), func(p *v1alpha1.Proxy) bool {
		c := meta.FindStatusCondition(p.Status.Conditions, kind)
		return c != nil && c.Status == status && (reason == "" || c.Reason == reason)
	})
}

// change edits a Proxy as a user would.
func (w *world) change(name string, edit func(*v1alpha1.Proxy)) {
	w.t.Helper()
	w.poll(func() string { return "change " + name }, func(ctx context.Context) bool {
		p, err := w.get(ctx, name)
		if err != nil {
			return false
		}
		edit(p)
		err = admin.Update(ctx, p)
		if err != nil && !apierrors.IsConflict(err) {
			w.t.Fatalf("change %s: %v", name, err)
		}
		return err == nil
	})
}

func (w *world) delete(name string) {
	w.t.Helper()
	if err := admin.Delete(w.t.Context(), w.proxy(name)); err != nil {
		w.t.Fatalf("delete %s: %v", name, err)
	}
}

// untilGone waits until a Proxy is gone from the API.
func (w *world) untilGone(name string) {
	w.t.Helper()
	w.poll(func() string { return name + " is gone" }, func(ctx context.Context) bool {
		_, err := w.get(ctx, name)
		return apierrors.IsNotFound(err)
	})
}

// nothingLeft says that the backend is empty.
func (w *world) nothingLeft() {
	w.t.Helper()
	if left, disks := w.backend.Instances(), w.backend.Disks(); len(left)+len(disks) > 0 {
		w.t.Errorf("the backend still has the instances %v and the disks %v", left, disks)
	}
}

// untilEvents waits until each reason was recorded, and fails when one was recorded more than once. The
// recorder writes events on its own time, also after the object is gone.
func (w *world) untilEvents(name string, reasons ...string) {
	w.t.Helper()
	got := map[string]int{}
	w.poll(func() string { return fmt.Sprintf("the events %v are recorded: %v", reasons, got) }, func(ctx context.Context) bool {
		if seen := w.events(ctx, name); ctx.Err() == nil {
			got = seen
		}
		return !slices.ContainsFunc(reasons, func(reason string) bool { return got[reason] == 0 })
	})
	for _, reason := range reasons {
		if got[reason] != 1 {
			w.t.Errorf("%s is one event: %v", reason, got)
		}
	}
}

// events gives the reasons of a Proxy's events, and how often each was recorded.
func (w *world) events(ctx context.Context, name string) map[string]int {
	var list eventsv1.EventList
	if err := admin.List(ctx, &list, client.InNamespace(w.namespace)); err != nil && ctx.Err() == nil {
		w.t.Fatalf("list events: %v", err)
	}
	out := map[string]int{}
	for i := range list.Items {
		e := &list.Items[i]
		if e.Regarding.Name != name {
			continue
		}
		if strings.Contains(e.Note, userPassword) {
			w.t.Errorf("an event holds the password: %s", e.Note)
		}
		out[e.Reason]++
		if e.Series != nil {
			out[e.Reason] += int(e.Series.Count) - 1
		}
	}
	return out
}

var (
	errTransient = provider.Errorf(provider.ErrTransient, provider.ReasonUnreachable, "no route to the host")
	errPermanent = provider.Errorf(provider.ErrPermanent, provider.ReasonAuthFailed, "the host refused the key")
)
