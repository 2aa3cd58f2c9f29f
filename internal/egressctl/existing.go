package egressctl

import (
	"strings"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl/state"
)

// notApplied is the user-data for a proxy that exists already: the contract wants some, and nobody reads it.
const notApplied = "#cloud-config\n# This instance is a proxy already.\n"

// existing makes the record for a proxy that somebody else has set up (R12.10): the credential is what that one
// accepts, and the probe uses it. Flags that only a proxy of our own making obeys are refused.
func (d *draft) existing(rec, prior *state.Record) error {
	if flags := d.unenforced(); flags != nil {
		return fail(CodeUsage, "%s has proxies that exist already, with rules of their own: leave out %s, which nobody would enforce",
			rec.Entry, strings.Join(flags, ", "))
	}
	switch {
	case d.inputs.AuthUser == "":
		return fail(CodeUsage, "%s has proxies that exist already: give --auth-user and the password that they accept", rec.Entry)
	case d.password.generate:
		return fail(CodeUsage, "%s has proxies that exist already, which do not know what --generate-password makes: give --password-file or %s", rec.Entry, passwordVariable)
	}
	if err := d.setPassword(rec, prior); err != nil {
		return err
	}
	rec.ProbeUser, rec.ProbePassword = d.inputs.AuthUser, d.password.text
	if rec.ProbePassword == "" && prior != nil {
		rec.ProbePassword = prior.ProbePassword
	}
	rec.UserData = []byte(notApplied)
	return nil
}

// unenforced names the flags that an existing proxy does not obey.
func (d *draft) unenforced() (flags []string) {
	for _, flag := range []struct {
		name string
		set  bool
	}{
		{"--allow-source", len(d.inputs.AllowSources) > 0},
		{"--allow-destination", len(d.inputs.AllowDestinations) > 0},
		{"--allow-private-destination", len(d.inputs.AllowPrivateDestinations) > 0},
		{"--ssh-key-file", len(d.inputs.SSHKeys) > 0},
		{"--user-data-file", d.userData != nil},
	} {
		if flag.set {
			flags = append(flags, flag.name)
		}
	}
	return flags
}
