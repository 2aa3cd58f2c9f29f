package proxy

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/api/v1alpha1"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/cloudinit"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// Keys of the Secrets that a Proxy names.
const (
	keyUsername = "username"
	keyPassword = "password"
	keyUserData = "user-data"
)

// specError says that the spec, or a Secret that it names, cannot be used as it is. Its reason is the
// condition's; the user mends it.
type specError struct {
	reason string
	err    error
}

func (e *specError) Error() string { return e.err.Error() }
func (e *specError) Unwrap() error { return e.err }

// authSecret is what clients send; empty without auth.
type authSecret struct{ user, password string }

// readAuth reads the Secret of spec.auth.
func (r *Reconciler) readAuth(ctx context.Context, p *v1alpha1.Proxy) (authSecret, error) {
	if p.Spec.Auth == nil {
		return authSecret{}, nil
	}
	secret, err := r.readSecret(ctx, p.Namespace, p.Spec.Auth.SecretRef.Name, keyUsername, keyPassword)
	if err != nil {
		return authSecret{}, err
	}
	return authSecret{user: string(secret.Data[keyUsername]), password: string(secret.Data[keyPassword])}, nil
}

// readUserData reads the Secret of spec.cloudInit.
func (r *Reconciler) readUserData(ctx context.Context, p *v1alpha1.Proxy) (provider.Secret, error) {
	secret, err := r.readSecret(ctx, p.Namespace, p.Spec.CloudInit.SecretRef.Name, keyUserData)
	if err != nil {
		return nil, err
	}
	return secret.Data[keyUserData], nil
}

// readSecret reads a Secret past every cache and asks for keys that are not empty.
func (r *Reconciler) readSecret(ctx context.Context, namespace, name string, keys ...string) (*corev1.Secret, error) {
	var secret corev1.Secret
	err := r.Secrets.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, &specError{v1alpha1.ReasonSecretNotFound, fmt.Errorf("the Secret %q does not exist in namespace %q: create it, with the key %s", name, namespace, strings.Join(keys, " and "))}
	case err != nil:
		return nil, fmt.Errorf("read the Secret %q: %w", name, err)
	}
	for _, key := range keys {
		if len(secret.Data[key]) == 0 {
			return nil, &specError{v1alpha1.ReasonSecretInvalid, fmt.Errorf("the Secret %q has no key %q, or it is empty", name, key)}
		}
	}
	return &secret, nil
}

// keptKeys are made once for a Proxy and kept, so that rendering twice gives the same bytes.
type keptKeys struct {
	passwordHash                        string
	probeUser, probePassword, probeHash string
	checkURL                            string
}

// Keys of the kept Secret.
const (
	keptPasswordHash   = "password-hash"
	keptPasswordDigest = "password-digest"
	keptProbeUser      = "probe-username"
	keptProbePassword  = "probe-password"
	keptProbeHash      = "probe-password-hash"
	keptCheckURL       = "check-url"
)

// keptName is the name of the Secret that holds a Proxy's kept keys.
func keptName(p *v1alpha1.Proxy) string { return p.Name + "-proxy-keys" }

// keepKeys reads the kept keys, and makes what is missing. The password's hash is made again only
// when it is another password's. The check URL is the present one until a VM is made with it.
func (r *Reconciler) keepKeys(ctx context.Context, p *v1alpha1.Proxy, auth authSecret) (keptKeys, error) {
	secret, err := r.ownedSecret(ctx, p, keptName(p))
	if err != nil {
		return keptKeys{}, err
	}
	changed, err := fillKeys(secret, auth)
	if err != nil {
		return keptKeys{}, err
	}
	if url := r.Providers.CheckURL(); string(secret.Data[keptCheckURL]) != url && (p.Status.ProviderID == "" || len(secret.Data[keptCheckURL]) == 0) {
		secret.Data[keptCheckURL], changed = []byte(url), true
	}
	if changed {
		if err := r.writeSecret(ctx, secret); err != nil {
			return keptKeys{}, err
		}
	}
	return keptKeys{
		passwordHash:  string(secret.Data[keptPasswordHash]),
		probeUser:     string(secret.Data[keptProbeUser]),
		probePassword: string(secret.Data[keptProbePassword]),
		probeHash:     string(secret.Data[keptProbeHash]),
		checkURL:      string(secret.Data[keptCheckURL]),
	}, nil
}

// fillKeys adds what is missing in the kept Secret, and says whether it changed.
func fillKeys(secret *corev1.Secret, auth authSecret) (bool, error) {
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	changed := false
	if len(secret.Data[keptProbeHash]) == 0 {
		user, password, err := cloudinit.GenerateCredential()
		if err != nil {
			return false, fmt.Errorf("make the probe credential: %w", err)
		}
		made, err := cloudinit.HashPassword(password)
		if err != nil {
			return false, fmt.Errorf("hash the probe credential: %w", err)
		}
		secret.Data[keptProbeUser], secret.Data[keptProbePassword], secret.Data[keptProbeHash] = []byte(user), []byte(password), []byte(made)
		changed = true
	}
	digest := digestOf(auth.password, secret.Data[keptProbePassword])
	switch {
	case auth.password == "":
		changed = changed || len(secret.Data[keptPasswordHash]) > 0
		delete(secret.Data, keptPasswordHash)
		delete(secret.Data, keptPasswordDigest)
	case !hmac.Equal(digest, secret.Data[keptPasswordDigest]):
		made, err := cloudinit.HashPassword(auth.password)
		if err != nil {
			return false, &specError{v1alpha1.ReasonSecretInvalid, fmt.Errorf("the password of spec.auth: %w", err)}
		}
		secret.Data[keptPasswordHash], secret.Data[keptPasswordDigest] = []byte(made), digest
		changed = true
	}
	return changed, nil
}

// digestOf tells whether a password is still the one that was hashed. bcrypt could tell too, and takes
// a tenth of a second of CPU each time; this runs in every pass of every Proxy. It lies beside what it
// is keyed with, in a Secret.
func digestOf(password string, key []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(password))
	return []byte(hex.EncodeToString(mac.Sum(nil)))
}

// errForeignSecret says that a Secret of the name that we need belongs to somebody else.
var errForeignSecret = errors.New("exists and is not this Proxy's")

// ownedSecret reads a Secret that belongs to the Proxy, or gives an empty one to fill and write.
func (r *Reconciler) ownedSecret(ctx context.Context, p *v1alpha1.Proxy, name string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := r.Secrets.Get(ctx, types.NamespacedName{Namespace: p.Namespace, Name: name}, secret)
	switch {
	case apierrors.IsNotFound(err):
		secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: name}}
		if err := controllerutil.SetControllerReference(p, secret, r.Client.Scheme()); err != nil {
			return nil, fmt.Errorf("own the Secret %q: %w", name, err)
		}
		return secret, nil
	case err != nil:
		return nil, fmt.Errorf("read the Secret %q: %w", name, err)
	case !metav1.IsControlledBy(secret, p):
		return nil, &specError{v1alpha1.ReasonSecretConflict, fmt.Errorf("the Secret %q %w: rename or delete it", name, errForeignSecret)}
	}
	return secret, nil
}

// writeSecret creates or updates what ownedSecret gave.
func (r *Reconciler) writeSecret(ctx context.Context, secret *corev1.Secret) error {
	var err error
	if secret.ResourceVersion == "" {
		err = r.Client.Create(ctx, secret)
	} else {
		err = r.Client.Update(ctx, secret)
	}
	if err != nil {
		return fmt.Errorf("write the Secret %q: %w", secret.Name, err)
	}
	return nil
}
