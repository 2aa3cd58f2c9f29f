package proxy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/netip"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/api/v1alpha1"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/cloudinit"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// inputs are what an instance is made from.
type inputs struct {
	request provider.CreateRequest
	// user and password are what clients send; both empty without auth.
	user, password string
	// probeUser and probePassword are what the operator's own request sends; both may be empty.
	probeUser, probePassword string
	// checkURL is what is fetched through the VM, or provider.CheckURLNone. A VM made by us lets the
	// probe credential go to the check URL of its time only, so it keeps that one for life.
	checkURL string
	// hash of the spec and of the Secrets' content. A new operator version or template leaves it alone.
	hash string
}

// verified says that there is a check URL: Ready then means that a request to it passed.
func (in *inputs) verified() bool { return in.checkURL != provider.CheckURLNone }

// gather reads the Secrets and renders the user-data.
func (r *Reconciler) gather(ctx context.Context, p *v1alpha1.Proxy, prov provider.Provider) (*inputs, error) {
	auth, err := r.readAuth(ctx, p)
	if err != nil {
		return nil, err
	}
	in := &inputs{
		user: auth.user, password: auth.password, probeUser: auth.user, probePassword: auth.password,
		checkURL: r.Providers.CheckURL(),
	}
	if _, ok := provider.As[provider.Preconfigured](prov); ok {
		return in, r.existing(p, in)
	}
	hashed := []any{p.Spec.Port, p.Spec.AllowedSources, p.Spec.AllowedDestinations, p.Spec.AllowedPrivateDestinations, p.Spec.SSHAuthorizedKeys}

	var userData provider.Secret
	if p.Spec.CloudInit != nil {
		userData, err = r.readUserData(ctx, p)
		if err != nil {
			return nil, err
		}
		hashed = append(hashed, "user-data", []byte(userData))
	} else {
		keys, err := r.keepKeys(ctx, p, auth)
		if err != nil {
			return nil, err
		}
		if in.checkURL = keys.checkURL; in.verified() {
			in.probeUser, in.probePassword = keys.probeUser, keys.probePassword
		}
		hashed = append(hashed, "auth", auth.user, keys.passwordHash, keys.probeUser, keys.probeHash)
		if userData, err = r.render(p, prov, auth, keys); err != nil {
			return nil, err
		}
	}
	if in.hash, err = hashOf(hashed); err != nil {
		return nil, err
	}
	in.request = r.request(p)
	in.request.CloudInit = userData
	return in, nil
}

// request is the part of the CreateRequest that the ID depends on: everything but the user-data.
func (r *Reconciler) request(p *v1alpha1.Proxy) provider.CreateRequest {
	ref := p.Namespace + "/" + p.Name
	uid := instanceUID(p)
	return provider.CreateRequest{
		Name:  provider.InstanceName(r.Owner, ref, uid),
		UID:   uid,
		Owner: r.Owner,
		Ref:   ref,
		Placement: provider.Placement{
			Zone:        p.Spec.Placement.Zone,
			MachineType: p.Spec.Placement.MachineType,
			Image:       p.Spec.Placement.Image,
		},
	}
}

// render makes the user-data that turns the VM into the proxy that the spec asks for.
func (r *Reconciler) render(p *v1alpha1.Proxy, prov provider.Provider, auth authSecret, keys keptKeys) (provider.Secret, error) {
	spec := cloudinit.Spec{
		Hostname:            provider.InstanceName(r.Owner, p.Namespace+"/"+p.Name, instanceUID(p)),
		Port:                int(p.Spec.Port),
		User:                auth.user,
		PasswordHash:        keys.passwordHash,
		AllowedDestinations: p.Spec.AllowedDestinations,
		SSHAuthorizedKeys:   p.Spec.SSHAuthorizedKeys,
	}
	var err error
	if spec.AllowedSources, err = prefixes("allowedSources", p.Spec.AllowedSources); err != nil {
		return nil, err
	}
	if spec.AllowedPrivateDestinations, err = prefixes("allowedPrivateDestinations", p.Spec.AllowedPrivateDestinations); err != nil {
		return nil, err
	}
	if guarder, ok := provider.As[provider.Guarder](prov); ok {
		if spec.GuardedDestinations, err = guarder.GuardedDestinations(r.request(p).Placement); err != nil {
			return nil, err
		}
	}
	if keys.checkURL != provider.CheckURLNone {
		spec.Probe = &cloudinit.Probe{User: keys.probeUser, PasswordHash: keys.probeHash, CheckURL: keys.checkURL}
	}
	userData, err := cloudinit.Render(spec)
	if err != nil {
		return nil, &specError{reason: v1alpha1.ReasonInvalidSpec, err: err}
	}
	return userData, nil
}

func prefixes(field string, cidrs []string) ([]netip.Prefix, error) {
	out := make([]netip.Prefix, 0, len(cidrs))
	for i, c := range cidrs {
		prefix, err := netip.ParsePrefix(c)
		if err != nil {
			return nil, &specError{reason: v1alpha1.ReasonInvalidSpec, err: fmt.Errorf("spec.%s[%d]: %w", field, i, err)}
		}
		out = append(out, prefix)
	}
	return out, nil
}

func hashOf(parts []any) (string, error) {
	encoded, err := json.Marshal(parts)
	if err != nil {
		return "", fmt.Errorf("hash of the inputs: %w", err)
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:16]), nil
}
