package egressctl

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/cloudinit"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl/state"
)

// proxyFlags are the flags of create and render that say what proxy is wanted.
type proxyFlags struct {
	cmd *cobra.Command

	zone, machineType, image string
	port                     int
	authUser                 string
	passwordFile             string
	generatePassword         bool
	allowSources             []string
	allowDestinations        []string
	allowPrivate             []string
	sshKeyFile               string
	userDataFile             string
}

const proxyFlagsHelp = `Placement flags may be left out where the entry has one zone, machine type or image.

A proxy needs --auth-user, --allow-source, or both; with both, both must hold. The password never stands on
the command line: it is the first line of --password-file ("-" for standard input), or the value of
EGRESSCTL_PASSWORD, or made by --generate-password. The VM gets its bcrypt hash only.

Without --allow-destination, all public addresses can be reached. Private, shared and reserved ones are closed
unless --allow-private-destination names them; loopback, link-local, the proxy itself and its hypervisor always.`

func (f *proxyFlags) add(cmd *cobra.Command) {
	f.cmd = cmd
	flags := cmd.Flags()
	flags.StringVar(&f.zone, "zone", "", "the host, by its `NAME` in the entry")
	flags.StringVar(&f.machineType, "machine-type", "", "the size, by its `NAME` in the entry")
	flags.StringVar(&f.image, "image", "", "the image, by its `NAME` in the entry")
	flags.IntVar(&f.port, "port", cloudinit.DefaultPort, "the `PORT` on which the proxy listens")
	flags.StringVar(&f.authUser, "auth-user", "", "the user `NAME` that clients must give")
	flags.StringVar(&f.passwordFile, "password-file", "", "the `FILE` with the user's password, - for standard input")
	flags.BoolVar(&f.generatePassword, "generate-password", false, "make a password and keep it in the state directory: see get --show-password")
	flags.StringSliceVar(&f.allowSources, "allow-source", nil, "a `CIDR` from which clients may come; repeat it for more")
	flags.StringSliceVar(&f.allowDestinations, "allow-destination", nil, "a `DOMAIN` that clients may reach, with its subdomains; repeat it for more")
	flags.StringSliceVar(&f.allowPrivate, "allow-private-destination", nil, "a `CIDR` of private addresses that clients may reach; repeat it for more")
	flags.StringVar(&f.sshKeyFile, "ssh-key-file", "", "a `FILE` of public keys, one a line, that may log in to the VM")
	flags.StringVar(&f.userDataFile, "user-data-file", "", "a `FILE` of user-data to use as it is instead of ours, - for standard input")
	cmd.MarkFlagsMutuallyExclusive("password-file", "generate-password")
	for _, ours := range []string{"auth-user", "password-file", "generate-password", "allow-source", "allow-destination", "allow-private-destination", "ssh-key-file"} {
		cmd.MarkFlagsMutuallyExclusive("user-data-file", ours)
	}
}

func (f *proxyFlags) given(flag string) bool { return f.cmd.Flags().Changed(flag) }

// inputs gives what is wanted: the flags that were given, over base, which is what is recorded.
// ownUserData is the content of --user-data-file, nil without.
func (f *proxyFlags) inputs(base state.Inputs, ownUserData []byte) (state.Inputs, error) {
	in := base
	for flag, set := range map[string]func(){
		"zone":         func() { in.Placement.Zone = f.zone },
		"machine-type": func() { in.Placement.MachineType = f.machineType },
		"image":        func() { in.Placement.Image = f.image },
		"port":         func() { in.Port = f.port },
	} {
		if f.given(flag) {
			set()
		}
	}
	if in.Port == 0 {
		in.Port = cloudinit.DefaultPort
	}
	if in.Port < 1 || in.Port > 65535 {
		return in, fail(CodeUsage, "--port %d: a port is a number from 1 to 65535", in.Port)
	}
	if ownUserData != nil {
		sum := sha256.Sum256(ownUserData)
		return state.Inputs{Placement: in.Placement, Port: in.Port, UserDataSHA256: hex.EncodeToString(sum[:])}, nil
	}
	err := f.access(&in)
	return in, err
}

// access sets who may use the proxy and for what.
func (f *proxyFlags) access(in *state.Inputs) (err error) {
	ours := false
	set := func(flag string, change func() error) {
		if err == nil && f.given(flag) {
			ours, err = true, change()
		}
	}
	set("auth-user", func() error { in.AuthUser = f.authUser; return nil })
	set("allow-source", func() (err error) { in.AllowSources, err = prefixes("--allow-source", f.allowSources); return })
	set("allow-destination", func() error { in.AllowDestinations = domains(f.allowDestinations); return nil })
	set("allow-private-destination", func() (err error) {
		in.AllowPrivateDestinations, err = prefixes("--allow-private-destination", f.allowPrivate)
		return
	})
	set("ssh-key-file", func() (err error) { in.SSHKeys, err = readKeys(f.sshKeyFile); return })
	if ours {
		in.UserDataSHA256 = ""
	}
	return err
}

// prefixes brings CIDRs into their normal form. A bare address is its own network.
func prefixes(flag string, values []string) ([]string, error) {
	var out []string
	for _, v := range values {
		p, err := netip.ParsePrefix(v)
		if addr, notAddr := netip.ParseAddr(v); notAddr == nil {
			p, err = netip.PrefixFrom(addr, addr.BitLen()), nil
		}
		if err != nil {
			return nil, fail(CodeUsage, "%s %q: not a CIDR such as 198.51.100.0/24", flag, v)
		}
		out = append(out, p.Masked().String())
	}
	return ordered(out), nil
}

func domains(values []string) []string {
	var out []string
	for _, v := range values {
		out = append(out, strings.ToLower(strings.TrimSuffix(v, ".")))
	}
	return ordered(out)
}

func ordered(values []string) []string {
	slices.Sort(values)
	return slices.Compact(values)
}

// readKeys reads public keys, one a line; empty lines and comments are left out.
func readKeys(path string) ([]string, error) {
	data, err := readPath(path)
	if err != nil {
		return nil, fail(CodeUsage, "--ssh-key-file: %w", err)
	}
	var out []string
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			out = append(out, line)
		}
	}
	if out == nil {
		return nil, fail(CodeUsage, "--ssh-key-file: %s has no key", path)
	}
	return ordered(out), nil
}

// differences tells, flag by flag, where b asks for something else than a.
func differences(a, b state.Inputs) []string {
	var out []string
	compare := func(flag, old, asked string) {
		if old != asked {
			out = append(out, fmt.Sprintf("%s %s, not %s", flag, orNone(old), orNone(asked)))
		}
	}
	compare("--zone", a.Placement.Zone, b.Placement.Zone)
	compare("--machine-type", a.Placement.MachineType, b.Placement.MachineType)
	compare("--image", a.Placement.Image, b.Placement.Image)
	compare("--port", strconv.Itoa(a.Port), strconv.Itoa(b.Port))
	compare("--auth-user", a.AuthUser, b.AuthUser)
	compare("--allow-source", strings.Join(a.AllowSources, ","), strings.Join(b.AllowSources, ","))
	compare("--allow-destination", strings.Join(a.AllowDestinations, ","), strings.Join(b.AllowDestinations, ","))
	compare("--allow-private-destination", strings.Join(a.AllowPrivateDestinations, ","), strings.Join(b.AllowPrivateDestinations, ","))
	if !slices.Equal(a.SSHKeys, b.SSHKeys) {
		out = append(out, "other keys than --ssh-key-file has")
	}
	if a.UserDataSHA256 != b.UserDataSHA256 {
		out = append(out, "other user-data")
	}
	return out
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
