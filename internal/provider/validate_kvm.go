package provider

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// Limits of the KVM block. maxSocket is sun_path of unix(7) less its zero byte, maxInterface is IFNAMSIZ
// less the same, maxMemory is 16 TiB.
const (
	maxVCPUs      = 512
	minMemoryMiB  = 128
	maxMemoryMiB  = 16 << 20
	maxDiskGiB    = 65536
	maxSocket     = 107
	maxInterface  = 15
	maxVendorData = 64 << 10
)

// validateKVM checks the block of an entry of the older type.
func validateKVM(prefix string, c *KVMConfig) Problems { return validateKVMBlock(prefix, TypeKVM, c) }

// validateKVMBlock checks a KVM block and brings its values into their normal form. prefix is the
// entry's path and block the block's name, so that each message says where the value stands.
func validateKVMBlock(prefix, block string, c *KVMConfig) Problems {
	at := prefix + "." + block
	problems := append(hostsProblems(at+".hosts", c.Hosts), sshProblems(at, c)...)
	if len(c.MachineTypes) == 0 {
		problems.add(at+".machineTypes", "is required: at least one machine type")
	}
	for _, name := range slices.Sorted(maps.Keys(c.MachineTypes)) {
		problems = append(problems, machineTypeProblems(pathTo(at+".machineTypes", name), name, c.MachineTypes[name])...)
	}
	if len(c.Images) == 0 {
		problems.add(at+".images", "is required: at least one image")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Images)) {
		image := c.Images[name]
		problems = append(problems, imageProblems(pathTo(at+".images", name), name, &image)...)
		c.Images[name] = image
	}
	problems = append(problems, vendorDataProblems(at+".extraVendorData", c.ExtraVendorData)...)
	return problems
}

func hostsProblems(at string, hosts []KVMHost) Problems {
	var problems Problems
	if len(hosts) == 0 {
		problems.add(at, "is required: at least one host")
	}
	names, places := map[string]int{}, map[string]int{}
	for i := range hosts {
		h, where := &hosts[i], fmt.Sprintf("%s[%d]", at, i)
		found := hostProblems(where, h)
		problems = append(problems, found...)
		if first, taken := names[h.Name]; taken && h.Name != "" {
			problems.add(where+".name", "is taken by hosts[%d]: a host's name is its zone", first)
		} else {
			names[h.Name] = i
		}
		// A domain seen through two hosts would have two IDs.
		place := fmt.Sprintf("%s %d %s", h.Address, h.Port, h.Socket)
		if first, taken := places[place]; taken && found == nil {
			problems.add(where+".address", "is the same host as hosts[%d]: one libvirt has one zone", first)
		} else {
			places[place] = i
		}
	}
	return problems
}

func hostProblems(at string, h *KVMHost) Problems {
	problems := append(labelProblems(at+".name", h.Name), normaliseAddress(at, h)...)
	if h.User == "" || !isWord(h.User) {
		problems.add(at+".user", "must be the name of an SSH user, is %s", quote(h.User))
	}
	switch {
	case !path.IsAbs(h.Socket) || !isPrintable(h.Socket) || len(h.Socket) > maxSocket:
		problems.add(at+".socket", "must be an absolute path of at most %d bytes, is %s", maxSocket, quote(h.Socket))
	case strings.HasSuffix(h.Socket, "-ro"):
		problems.add(at+".socket", "is a read-only socket, on which nothing can be created: use the one without -ro")
	}
	if len(h.Pool) > maxLabel || !isWord(h.Pool) || strings.Contains(h.Pool, "/") {
		problems.add(at+".pool", "must be the name of a storage pool, is %s", quote(h.Pool))
	}
	if len(h.Bridge) > maxInterface || !isWord(h.Bridge) || strings.ContainsAny(h.Bridge, "/:") || strings.Trim(h.Bridge, ".") == "" {
		problems.add(at+".bridge", "must be the name of a network bridge, at most %d bytes, is %s", maxInterface, quote(h.Bridge))
	}
	return problems
}

func sshProblems(at string, c *KVMConfig) Problems {
	var problems Problems
	if c.SSHKeyFile == "" {
		problems.add(at+".sshKeyFile", "is required: the private key's file")
	} else if problem := expandHome(&c.SSHKeyFile); problem != "" {
		problems.add(at+".sshKeyFile", "%s", problem)
	}
	switch {
	case c.KnownHostsFile == "" && !c.InsecureIgnoreHostKey:
		problems.add(at+".knownHostsFile", "is required, unless insecureIgnoreHostKey is true")
	case c.KnownHostsFile != "":
		if problem := expandHome(&c.KnownHostsFile); problem != "" {
			problems.add(at+".knownHostsFile", "%s", problem)
		}
	}
	return problems
}

func machineTypeProblems(at, name string, m KVMMachineType) Problems {
	problems := keyProblems(at, name)
	within := func(field string, value, low, high int, unit string) {
		if value < low || value > high {
			problems.add(at+"."+field, "must be %d to %d%s, is %d", low, high, unit, value)
		}
	}
	within("vcpus", m.VCPUs, 1, maxVCPUs, "")
	within("memoryMiB", m.MemoryMiB, minMemoryMiB, maxMemoryMiB, " MiB")
	within("diskSizeGb", m.DiskSizeGb, 1, maxDiskGiB, " GiB")
	return problems
}

func vendorDataProblems(at, script string) Problems {
	line, _, _ := strings.Cut(script, "\n")
	switch {
	case script == "":
		return nil
	case len(script) > maxVendorData:
		return Problems{{at, fmt.Sprintf("must have at most %d bytes, has %d", maxVendorData, len(script))}}
	case !strings.HasPrefix(script, "#!"):
		// cloud-init merges cloud-config vendor-data into user-data, which then replaces it.
		return Problems{{at, `must be a script that begins with "#!", for example #!/bin/sh`}}
	case strings.HasSuffix(line, "\r"):
		return Problems{{at, "has Windows line ends, with which its interpreter is not found: save it with LF"}}
	}
	return nil
}

// keyProblems checks a name that a placement uses.
func keyProblems(at, name string) Problems {
	if !plainKey.MatchString(strings.ReplaceAll(name, ".", "-")) || strings.Trim(name, ".-") != name {
		return Problems{{at, fmt.Sprintf("the name must have letters, digits, dots, hyphens and underscores, at most %d", maxLabel)}}
	}
	return nil
}

// labelProblems checks the name of an entry or a host.
func labelProblems(at, name string) Problems {
	if isLabel(name) {
		return nil
	}
	return Problems{{at, fmt.Sprintf("must be a DNS label (a-z, 0-9 and hyphens between them, at most %d), is %s", maxLabel, quote(name))}}
}

// isWord reports whether s is printable text without spaces, and not empty.
func isWord(s string) bool { return s != "" && isPrintable(s) && !strings.Contains(s, " ") }
