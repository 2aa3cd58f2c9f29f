// Package identity keeps an installation's own identity, which every instance's mark carries: what has
// another one is not ours. It is made once, at random, and kept in a ConfigMap in the operator's
// namespace: two installations that share a host never share it.
package identity

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ConfigMapName and Key are where the identity is kept.
const (
	ConfigMapName = "egress-proxies-operator-identity"
	Key           = "owner"
)

// Ensure gives the identity, and makes it where there is none. Of two replicas that start at once, the
// first to write wins and the other reads it. A ConfigMap without a usable identity is an error: making
// another one would disown every instance there is.
func Ensure(ctx context.Context, reader client.Reader, writer client.Writer, namespace string) (string, error) {
	key := types.NamespacedName{Namespace: namespace, Name: ConfigMapName}
	var found corev1.ConfigMap
	err := reader.Get(ctx, key, &found)
	if apierrors.IsNotFound(err) {
		immutable := true
		made := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: ConfigMapName},
			Immutable:  &immutable,
			Data:       map[string]string{Key: uuid.NewString()},
		}
		err = writer.Create(ctx, made)
		if err == nil {
			return made.Data[Key], nil
		}
		if apierrors.IsAlreadyExists(err) {
			err = reader.Get(ctx, key, &found)
		}
	}
	if err != nil {
		return "", fmt.Errorf("the installation's identity (ConfigMap %s): %w", key, err)
	}
	owner := found.Data[Key]
	if uuid.Validate(owner) != nil {
		return "", fmt.Errorf("the ConfigMap %s holds no identity under %q: restore it from a backup, since the VMs of this installation carry it", key, Key)
	}
	return owner, nil
}
