package egressctl

import (
	"fmt"
	"net/netip"
	"strings"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/cloudinit"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl/state"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// render makes the user-data of rec, and the probe's credential with it.
func (t *target) render(rec *state.Record) error {
	in := rec.Inputs
	if in.AuthUser == "" && len(in.AllowSources) == 0 {
		return fail(CodeUsage, "anyone could use this proxy: give --auth-user, --allow-source or both")
	}
	spec := cloudinit.Spec{
		Hostname: rec.InstanceName, Port: in.Port, User: in.AuthUser, PasswordHash: rec.PasswordHash,
		AllowedDestinations: in.AllowDestinations, SSHAuthorizedKeys: in.SSHKeys,
	}
	var err error
	if spec.AllowedSources, err = parsePrefixes(in.AllowSources); err != nil {
		return local(err)
	}
	if spec.AllowedPrivateDestinations, err = parsePrefixes(in.AllowPrivateDestinations); err != nil {
		return local(err)
	}
	if spec.GuardedDestinations, err = t.guarded(rec); err != nil {
		return err
	}
	if spec.Probe, err = probeCredential(rec); err != nil {
		return local(err)
	}
	userData, err := cloudinit.Render(spec)
	if err != nil {
		return fail(CodeUsage, "%s: %s", t.place(rec), inFlags.Replace(err.Error()))
	}
	rec.UserData = userData
	return nil
}

// inFlags puts the names that a user of the command line knows into cloudinit's messages.
var inFlags = strings.NewReplacer(
	"allowedPrivateDestinations", "--allow-private-destination", "allowedDestinations", "--allow-destination",
	"allowedSources", "--allow-source", "sshAuthorizedKeys", "--ssh-key-file", "auth:", "--auth-user:",
)

// guarded are the destinations that the provider wants closed, the hypervisor among them.
func (t *target) guarded(rec *state.Record) ([]string, error) {
	g, ok := provider.As[provider.Guarder](t.provider)
	if !ok {
		return nil, nil
	}
	out, err := g.GuardedDestinations(rec.Inputs.Placement)
	return out, refused(t.place(rec), "name what to close to the proxy", err)
}

// probeCredential makes the credential for the check URL, in rec and for the VM.
func probeCredential(rec *state.Record) (*cloudinit.Probe, error) {
	if rec.CheckURL == provider.CheckURLNone {
		return nil, nil
	}
	var err error
	if rec.ProbeUser, rec.ProbePassword, err = cloudinit.GenerateCredential(); err != nil {
		return nil, fmt.Errorf("make the probe's credential: %w", err)
	}
	hash, err := cloudinit.HashPassword(rec.ProbePassword)
	if err != nil {
		return nil, fmt.Errorf("hash the probe's password: %w", err)
	}
	return &cloudinit.Probe{User: rec.ProbeUser, PasswordHash: hash, CheckURL: rec.CheckURL}, nil
}

func parsePrefixes(texts []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("read the recorded ranges: %w", err)
		}
		out = append(out, p)
	}
	return out, nil
}
