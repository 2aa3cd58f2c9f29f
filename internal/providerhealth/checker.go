package providerhealth

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/api/v1alpha1"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// Entries are the configured entries.
type Entries interface {
	// Names of all entries, those that cannot be used included.
	Names() []string
	// Type of an entry.
	Type(name string) string
	// Provider of an entry, or an error that says what is wrong with it.
	Provider(name string) (provider.Provider, error)
	// ConfigHash tells one configuration of an entry from another.
	ConfigHash(name string) string
}

// Checker checks every entry in turn, for ever. It is a Runnable of the manager, for the leader only.
type Checker struct {
	Client   client.Client
	Entries  Entries
	Interval time.Duration // between two checks of an entry
	Timeout  time.Duration // of one check
	// Again starts a round at once: the entries changed, or cannot be changed as the file wants.
	Again <-chan struct{}
	// FileErr says why the providers file as it is now is not what is in use; nil when it is.
	FileErr func() error
	Log     logr.Logger
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (c *Checker) NeedLeaderElection() bool { return true }

// Start checks until ctx ends. Entries are checked side by side: a slow one holds up no other.
func (c *Checker) Start(ctx context.Context) error {
	ticker := time.NewTicker(c.Interval)
	defer ticker.Stop()
	for {
		c.round(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		case <-c.Again:
		}
	}
}

// round checks every entry once, and removes the objects of entries that are no longer configured.
func (c *Checker) round(ctx context.Context) {
	names := c.Entries.Names()
	var wait sync.WaitGroup
	for _, name := range names {
		wait.Go(func() {
			status := c.check(ctx, name)
			status.ConfigHash = c.Entries.ConfigHash(name)
			status.Conditions = append(status.Conditions, current(c.FileErr()))
			if err := c.write(ctx, name, status); err != nil && ctx.Err() == nil {
				c.Log.Error(err, "write the health of a provider", "provider", name)
			}
		})
	}
	wait.Wait()
	if err := c.sweep(ctx, names); err != nil && ctx.Err() == nil {
		c.Log.Error(err, "remove the health of entries that are no longer configured")
	}
}

// check asks one entry's provider about its hosts.
func (c *Checker) check(ctx context.Context, name string) v1alpha1.ProviderHealthStatus {
	kind := c.Entries.Type(name)
	prov, err := c.Entries.Provider(name)
	if err != nil {
		return conditionOnly(kind, v1alpha1.ReasonConfigInvalid, err.Error(), metav1.ConditionFalse)
	}
	checker, ok := provider.As[provider.Checker](prov)
	if !ok {
		return conditionOnly(kind, v1alpha1.ReasonNotChecked, "providers of this type have no health check", metav1.ConditionUnknown)
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	return statusOf(kind, checker.Check(ctx))
}

// write makes the object where it is missing, and writes the status where it is due.
func (c *Checker) write(ctx context.Context, name string, fresh v1alpha1.ProviderHealthStatus) error {
	health := &v1alpha1.ProviderHealth{ObjectMeta: metav1.ObjectMeta{Name: name}}
	err := c.Client.Get(ctx, client.ObjectKeyFromObject(health), health)
	if apierrors.IsNotFound(err) {
		err = c.Client.Create(ctx, health)
	}
	if err != nil {
		return fmt.Errorf("get or create ProviderHealth %q: %w", name, err)
	}
	now := metav1.Now()
	if !due(&health.Status, &fresh, now.Time) {
		return nil
	}
	base := health.DeepCopy()
	conditions := health.Status.Conditions
	for _, condition := range fresh.Conditions {
		meta.SetStatusCondition(&conditions, condition)
	}
	health.Status = fresh
	health.Status.Conditions, health.Status.LastCheckTime = conditions, &now
	if err := c.Client.Status().Patch(ctx, health, client.MergeFrom(base)); err != nil {
		return fmt.Errorf("write the status of ProviderHealth %q: %w", name, err)
	}
	return nil
}

// sweep removes the objects of entries that are no longer configured.
func (c *Checker) sweep(ctx context.Context, names []string) error {
	var all v1alpha1.ProviderHealthList
	if err := c.Client.List(ctx, &all); err != nil {
		return err
	}
	for i := range all.Items {
		if slices.Contains(names, all.Items[i].Name) {
			continue
		}
		if err := c.Client.Delete(ctx, &all.Items[i]); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}
