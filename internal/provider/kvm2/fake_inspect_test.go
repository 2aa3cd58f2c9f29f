package kvm2

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/digitalocean/go-libvirt"
)

// fakeAgent is the guest agent of a domain: files that it can read, and commands that it refuses.
type fakeAgent struct {
	files   map[string]string
	refuses []string // by the distribution's configuration
	open    map[int]string
	handles int
}

// fakeDomainCapabilities is what a host says that it can run, with the firmwares that it has.
func fakeDomainCapabilities(firmwares ...string) string {
	return "<domainCapabilities><path>/usr/bin/qemu-system-x86_64</path><domain>kvm</domain><arch>x86_64</arch>" +
		"<os supported='yes'><enum name='firmware'><value>" + strings.Join(firmwares, "</value><value>") + "</value></enum></os></domainCapabilities>"
}

func (c *fakeConn) ConnectGetDomainCapabilities(ctx context.Context, virt virtualization) (string, error) {
	return fakeRPC(ctx, c, "ConnectGetDomainCapabilities", virt.Type, func(h *fakeHost) (string, error) {
		return h.domainCapabilities, nil
	})
}

func (c *fakeConn) ConnectListAllStoragePools(ctx context.Context) ([]pool, error) {
	return fakeRPC(ctx, c, "ConnectListAllStoragePools", "", func(h *fakeHost) ([]pool, error) {
		var out []pool
		for _, name := range slices.Sorted(maps.Keys(h.pools)) {
			if h.pools[name].state == fakePoolRunning {
				out = append(out, pool{Name: name})
			}
		}
		return out, nil
	})
}

func (c *fakeConn) HostTime(ctx context.Context) (time.Time, error) {
	return fakeRPC(ctx, c, "HostTime", "", func(h *fakeHost) (time.Time, error) {
		if h.noShell {
			return time.Time{}, errNoShell
		}
		return time.Now().Add(h.clockOff).Truncate(time.Second), nil
	})
}

func (c *fakeConn) InterfaceLookupByName(ctx context.Context, name string) (hostInterface, error) {
	return fakeRPC(ctx, c, "InterfaceLookupByName", name, func(h *fakeHost) (hostInterface, error) {
		if _, ok := h.interfaces[name]; !ok {
			return hostInterface{}, virErr(libvirt.ErrNoInterface, "Interface not found: couldn't find interface named '"+name+"'")
		}
		return hostInterface{Name: name}, nil
	})
}

func (c *fakeConn) InterfaceGetXMLDesc(ctx context.Context, i hostInterface) (string, error) {
	return fakeRPC(ctx, c, "InterfaceGetXMLDesc", i.Name, func(h *fakeHost) (string, error) { return h.interfaces[i.Name], nil })
}

func (c *fakeConn) StorageVolDownload(ctx context.Context, ref volume, offset, length uint64) ([]byte, error) {
	return onVolume(ctx, c, "StorageVolDownload", ref, func(p *fakePool, v *fakeVolume) ([]byte, error) {
		if v.gone {
			return nil, virErr(libvirt.ErrSystemError, "cannot open file '"+p.pathOf(v.name)+"': No such file or directory")
		}
		size := uint64(len(v.content))
		from := min(offset, size)
		return slices.Clone(v.content[from:min(from+length, size)]), nil
	})
}

// QEMUDomainAgentCommand answers the commands that the provider sends, as qemu-ga does.
func (c *fakeConn) QEMUDomainAgentCommand(ctx context.Context, ref domain, command string) (string, error) {
	var in struct {
		Execute   string
		Arguments struct {
			Path   string
			Handle int
			Count  int
		}
	}
	if err := json.Unmarshal([]byte(command), &in); err != nil {
		return "", virErr(libvirt.ErrInternalError, "internal error: cannot parse json "+command)
	}
	return fakeRPC(ctx, c, "QEMUDomainAgentCommand", in.Execute, func(h *fakeHost) (string, error) {
		d, err := h.byRef(ref)
		switch {
		case err != nil:
			return "", err
		case !d.active():
			return "", virErr(libvirt.ErrOperationInvalid, "Requested operation is not valid: domain is not running")
		case !d.agentConnected:
			return "", virErr(libvirt.ErrAgentUnresponsive, "Guest agent is not responding: QEMU guest agent is not connected")
		}
		return d.ga.answer(in.Execute, in.Arguments.Path, in.Arguments.Handle, in.Arguments.Count)
	})
}

func (a *fakeAgent) answer(command, path string, handle, count int) (string, error) {
	failed := func(why string) (string, error) {
		return "", virErr(libvirt.ErrInternalError, "internal error: unable to execute QEMU agent command '"+command+"': "+why)
	}
	if slices.Contains(a.refuses, command) {
		return failed("Command " + command + " has been disabled")
	}
	switch command {
	case "guest-file-open":
		if _, ok := a.files[path]; !ok {
			return failed("failed to open file '" + path + "' (mode: 'r'): No such file or directory")
		}
		if a.open == nil {
			a.open = map[int]string{}
		}
		a.handles++
		a.open[a.handles] = a.files[path]
		return fmt.Sprintf(`{"return":%d}`, a.handles), nil
	case "guest-file-read":
		content, ok := a.open[handle]
		if !ok {
			return failed("handle '" + strconv.Itoa(handle) + "' has not been found")
		}
		n := min(count, len(content))
		a.open[handle] = content[n:]
		return fmt.Sprintf(`{"return":{"count":%d,"buf-b64":%q,"eof":%v}}`, n,
			base64.StdEncoding.EncodeToString([]byte(content[:n])), n == len(content)), nil
	case "guest-file-close":
		delete(a.open, handle)
		return `{"return":{}}`, nil
	}
	return failed("The command " + command + " has not been found")
}
