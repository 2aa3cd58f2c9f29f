package provider_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// load gives the one entry's block, or what is wrong with it.
func load(t *testing.T, file string) (*provider.KVMConfig, []string) {
	t.Helper()
	config, err := provider.Load([]byte(file))
	if err != nil {
		t.Fatalf("the file itself must be right: %v\n%s", err, file)
	}
	if len(config.Broken) == 1 {
		return nil, lines(config.Broken[0].Problems)
	}
	return config.Providers[0].KVM2, nil
}

func TestLoad_entryProblems(t *testing.T) {
	const at = "providers[0].kvm2."
	host := func(field, value string) []string {
		return []string{"      user: egress\n", "      user: egress\n      " + field + ": " + value + "\n"}
	}
	cases := map[string]struct {
		reason string
		edit   []string
		want   []string
	}{
		"old type":            {"one sentence says how to port it", []string{"type: kvm2", "type: kvm", "  kvm2:", "  kvm:"}, []string{"providers[0].type: kvm is not read any more: change type to kvm2 and rename the block kvm to kvm2, the rest stays"}},
		"old type and more":   {"the block's other problems come with it, under its own name", []string{"type: kvm2", "type: kvm", "  kvm2:", "  kvm:", "vcpus: 1,", "vcpus: 0,"}, []string{"providers[0].type: kvm is not read any more: change type to kvm2 and rename the block kvm to kvm2, the rest stays", "providers[0].kvm.machineTypes.small.vcpus: must be 1 to 512, is 0"}},
		"half ported":         {"type changed, block not", []string{"  kvm2:", "  kvm:"}, []string{"providers[0].kvm: does not belong to type kvm2: its block is kvm2", "providers[0].kvm2: is required: the block of type kvm2"}},
		"unknown type":        {"the types there are", []string{"type: kvm2", "type: aws"}, []string{`providers[0].type: must be kvm2 or static, is "aws"`}},
		"no type":             {"a type is required", []string{"  type: kvm2\n", ""}, []string{`providers[0].type: must be kvm2 or static, is ""`}},
		"bad entry name":      {"it names objects and spans", []string{"kvm2-home", "Home_1"}, []string{`providers[0].name: must be a DNS label (a-z, 0-9 and hyphens between them, at most 63), is "Home_1"`}},
		"name is a list":      {"one problem for one value", []string{"kvm2-home", "[a]"}, []string{"providers[0].name: must be text, is a list"}},
		"name is a bool":      {"how to write it", []string{"kvm2-home", "true"}, []string{"providers[0].name: must be text, is true: put it in quotes"}},
		"unknown entry key":   {"unknown keys are refused", []string{"  type: kvm2", "  type: kvm2\n  enabled: true"}, []string{"providers[0].enabled: unknown key; the keys here are name, type, kvm, kvm2, static"}},
		"odd unknown key":     {"a path stays readable", []string{"  type: kvm2", "  type: kvm2\n  \"a b\\n\": true"}, []string{`providers[0]["a b\n"]: unknown key; the keys here are name, type, kvm, kvm2, static`}},
		"unknown block key":   {"unknown keys are refused with their path", []string{"    hosts:", "    sshKey: x\n    hosts:"}, []string{at + "sshKey: unknown key; the keys here are hosts, sshKeyFile, knownHostsFile, insecureIgnoreHostKey, machineTypes, images, extraVendorData"}},
		"key in other case":   {"keys are case sensitive", []string{"sshKeyFile", "sshkeyfile"}, []string{at + "sshkeyfile: unknown key; the keys here are hosts, sshKeyFile, knownHostsFile, insecureIgnoreHostKey, machineTypes, images, extraVendorData", at + "sshKeyFile: is required: the private key's file"}},
		"key twice":           {"one of them would be lost", []string{"      user: egress", "      user: egress\n      user: root"}, []string{at + "hosts[0].user: stands twice, again in line 10"}},
		"machine type twice":  {"one of them would be lost", []string{"      small: {", "      small: {vcpus: 2, memoryMiB: 512, diskSizeGb: 4}\n      small: {"}, []string{at + "machineTypes.small: stands twice, again in line 14"}},
		"alias":               {"entries stand alone", []string{"address: beelink.example.net", "address: &a beelink.example.net", "user: egress", "user: *a"}, []string{at + "hosts[0].user: YAML aliases are not read here: write the value out"}},
		"port in quotes":      {"a number", host("port", `"22"`), []string{at + `hosts[0].port: must be a whole number, is the text "22"`}},
		"port with a point":   {"a whole number", host("port", "22.5"), []string{at + "hosts[0].port: must be a whole number, is 22.5"}},
		"huge port":           {"numbers that fit nothing", host("port", "99999999999999999999"), []string{at + "hosts[0].port: must be a whole number, is 99999999999999999999"}},
		"negative port":       {"-1 is a port like 0", host("port", "-1"), []string{at + "hosts[0].port: must be 1 to 65535, is -1"}},
		"insecure as text":    {"a bool", []string{"    hosts:", "    insecureIgnoreHostKey: \"no\"\n    hosts:"}, []string{at + `insecureIgnoreHostKey: must be true or false, is the text "no"`}},
		"no hosts":            {"at least one", []string{"    hosts:\n    - name: beelink\n      address: beelink.example.net\n      user: egress\n", ""}, []string{at + "hosts: is required: at least one host"}},
		"an empty host":       {"one problem for one value", []string{"    hosts:\n", "    hosts:\n    -\n"}, []string{at + "hosts[0]: is empty"}},
		"hosts not a list":    {"one problem for one value", []string{"    hosts:\n    - name: beelink\n      address: beelink.example.net\n      user: egress\n", "    hosts: beelink\n"}, []string{at + `hosts: must be a list, is the text "beelink"`}},
		"host name":           {"a zone is a label", []string{"name: beelink", "name: beelink.lan"}, []string{at + `hosts[0].name: must be a DNS label (a-z, 0-9 and hyphens between them, at most 63), is "beelink.lan"`}},
		"host name twice":     {"a zone is one host", []string{"    sshKeyFile", "    - {name: beelink, address: other, user: egress}\n    sshKeyFile"}, []string{at + "hosts[1].name: is taken by hosts[0]: a host's name is its zone"}},
		"host twice":          {"one libvirt in two zones gives each domain two IDs, in any spelling", []string{"    sshKeyFile", "    - {name: other, address: 'Beelink.example.net.:22', user: root}\n    sshKeyFile"}, []string{at + "hosts[1].address: is the same host as hosts[0]: one libvirt has one zone"}},
		"no user":             {"whom to log in as", []string{"      user: egress\n", ""}, []string{at + `hosts[0].user: must be the name of an SSH user, is ""`}},
		"user with a space":   {"one word", []string{"user: egress", "user: e gress"}, []string{at + `hosts[0].user: must be the name of an SSH user, is "e gress"`}},
		"relative socket":     {"absolute", host("socket", "libvirt-sock"), []string{at + `hosts[0].socket: must be an absolute path of at most 107 bytes, is "libvirt-sock"`}},
		"empty socket":        {"an explicit nothing is no default", host("socket", `""`), []string{at + `hosts[0].socket: must be an absolute path of at most 107 bytes, is ""`}},
		"long socket":         {"sun_path", host("socket", "/"+strings.Repeat("s", 107)), []string{at + `hosts[0].socket: must be an absolute path of at most 107 bytes, is "/` + strings.Repeat("s", 63) + `"...`}},
		"read-only socket":    {"nothing can be created there", host("socket", "/run/libvirt/libvirt-sock-ro"), []string{at + "hosts[0].socket: is a read-only socket, on which nothing can be created: use the one without -ro"}},
		"pool with a slash":   {"a pool, not a path", host("pool", "/srv/vms"), []string{at + `hosts[0].pool: must be the name of a storage pool, is "/srv/vms"`}},
		"long bridge":         {"IFNAMSIZ", host("bridge", "a234567890123456"), []string{at + `hosts[0].bridge: must be the name of a network bridge, at most 15 bytes, is "a234567890123456"`}},
		"dots as a bridge":    {"no interface's name", host("bridge", `".."`), []string{at + `hosts[0].bridge: must be the name of a network bridge, at most 15 bytes, is ".."`}},
		"no key":              {"keys are searched nowhere", []string{"    sshKeyFile: /etc/kvm-ssh/id_ed25519\n", ""}, []string{at + "sshKeyFile: is required: the private key's file"}},
		"a key, not its file": {"a key is not repeated", []string{"/etc/kvm-ssh/id_ed25519", "\"-----BEGIN OPENSSH PRIVATE KEY-----\\n" + sentinel + "\\n\""}, []string{at + "sshKeyFile: must be the path of a file, not its content"}},
		"path of two lines":   {"no file's name", []string{"/etc/kvm-ssh/id_ed25519", `"/a\nb"`}, []string{at + "sshKeyFile: must be a path, one line of printable text"}},
		"images is a URL":     {"a password in it is not repeated", []string{"      debian-13:\n        url: https://images.example.org/debian-13.qcow2\n        sha256: " + goodDigest + "\n", "      https://me:" + sentinel + "@host/\n"}, []string{at + "images: must be a mapping, is a URL"}},
		"relative key":        {"relative to what", []string{"/etc/kvm-ssh/id_ed25519", "id_ed25519"}, []string{at + `sshKeyFile: must be an absolute path, or begin with ~/, is "id_ed25519"`}},
		"another user's home": {"only one's own home is known", []string{"/etc/kvm-ssh/known_hosts", "~other/known_hosts"}, []string{at + `knownHostsFile: must be an absolute path, or begin with ~/, is "~other/known_hosts"`}},
		"no known_hosts":      {"nobody skips the check by accident", []string{"    knownHostsFile: /etc/kvm-ssh/known_hosts\n", ""}, []string{at + "knownHostsFile: is required, unless insecureIgnoreHostKey is true"}},
		"no machine types":    {"a placement needs one", []string{"      small: {vcpus: 1, memoryMiB: 1024, diskSizeGb: 8}", "      {}"}, []string{at + "machineTypes: is required: at least one machine type"}},
		"machine too small":   {"every limit at once", []string{"vcpus: 1, memoryMiB: 1024, diskSizeGb: 8", "vcpus: 0, memoryMiB: 127, diskSizeGb: 0"}, []string{at + "machineTypes.small.vcpus: must be 1 to 512, is 0", at + "machineTypes.small.memoryMiB: must be 128 to 16777216 MiB, is 127", at + "machineTypes.small.diskSizeGb: must be 1 to 65536 GiB, is 0"}},
		"machine too large":   {"every limit at once", []string{"vcpus: 1, memoryMiB: 1024, diskSizeGb: 8", "vcpus: 513, memoryMiB: 16777217, diskSizeGb: 65537"}, []string{at + "machineTypes.small.vcpus: must be 1 to 512, is 513", at + "machineTypes.small.memoryMiB: must be 128 to 16777216 MiB, is 16777217", at + "machineTypes.small.diskSizeGb: must be 1 to 65536 GiB, is 65537"}},
		"empty machine type":  {"one problem for one value", []string{"small: {vcpus: 1, memoryMiB: 1024, diskSizeGb: 8}", "small:"}, []string{at + "machineTypes.small: is empty"}},
		"odd machine type":    {"a name that goes into an object's field", []string{"small: {", "'a b': {"}, []string{at + `machineTypes["a b"]: the name must have letters, digits, dots, hyphens and underscores, at most 63`}},
		"no images":           {"a placement needs one", []string{"      debian-13:\n        url: https://images.example.org/debian-13.qcow2\n        sha256: " + goodDigest + "\n", "      {}\n"}, []string{at + "images: is required: at least one image"}},
		"image by ftp":        {"http or https", []string{"https://images", "ftp://images"}, []string{at + "images.debian-13.url: must be an http or https URL"}},
		"image with password": {"a password would reach names and logs; the message does not repeat it", []string{"https://images", "https://me:pass@images"}, []string{at + "images.debian-13.url: must be a URL without user name and password"}},
		"no sha256":           {"nobody skips the check by accident", []string{"        sha256: " + goodDigest + "\n", ""}, []string{at + "images.debian-13.sha256: is required, unless insecureSkipChecksum is true"}},
		"sha256 and skip":     {"one of them is a mistake", []string{"        sha256:", "        insecureSkipChecksum: true\n        sha256:"}, []string{at + "images.debian-13.insecureSkipChecksum: must not be true beside a sha256: leave one of them out"}},
		"firmware":            {"an enum", []string{"        sha256:", "        firmware: UEFI\n        sha256:"}, []string{at + `images.debian-13.firmware: must be uefi or bios, is "UEFI"`}},
		"format":              {"an enum", []string{"        sha256:", "        format: img\n        sha256:"}, []string{at + `images.debian-13.format: must be qcow2 or raw, is "img"`}},
		"cloud-config":        {"cloud-init merges it away", []string{"    hosts:", "    extraVendorData: '#cloud-config'\n    hosts:"}, []string{at + `extraVendorData: must be a script that begins with "#!", for example #!/bin/sh`}},
		"CRLF script":         {"its interpreter would not be found", []string{"    hosts:", "    extraVendorData: \"#!/bin/sh\\r\\necho\"\n    hosts:"}, []string{at + "extraVendorData: has Windows line ends, with which its interpreter is not found: save it with LF"}},
		"large script":        {"bounded", []string{"    hosts:", "    extraVendorData: '#!" + strings.Repeat("x", 64<<10) + "'\n    hosts:"}, []string{at + "extraVendorData: must have at most 65536 bytes, has 65538"}},
		"several at once":     {"every problem, those of form before those of meaning", []string{"user: egress", "user: ''", "sshKeyFile: /", "sshKeyFile: ", "vcpus: 1,", "vcpus: many,"}, []string{at + `machineTypes.small.vcpus: must be a whole number, is the text "many"`, at + `hosts[0].user: must be the name of an SSH user, is ""`, at + `sshKeyFile: must be an absolute path, or begin with ~/, is "etc/kvm-ssh/id_ed25519"`}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, got := load(t, edit(t, tc.edit...))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestLoad_addressSpellings(t *testing.T) {
	type want struct {
		Address string
		Port    int
	}
	cases := map[string]struct {
		reason        string
		address, port string
		want          want
	}{
		"name":                    {"as it is", "kvm1.lab", "", want{"kvm1.lab", 22}},
		"name in mixed case":      {"known_hosts is compared in lower case", "KVM1.Lab", "", want{"kvm1.lab", 22}},
		"name with a final dot":   {"known_hosts has no final dot", "kvm1.lab.", "", want{"kvm1.lab", 22}},
		"name with port":          {"the port moves to its field", "kvm1.lab:2222", "", want{"kvm1.lab", 2222}},
		"name with dot and port":  {"both at once", "KVM1.lab.:2222", "2222", want{"kvm1.lab", 2222}},
		"name with an underscore": {"people have them", "kvm_1.lab", "", want{"kvm_1.lab", 22}},
		"IPv4":                    {"as it is", "192.0.2.10", "2222", want{"192.0.2.10", 2222}},
		"IPv4 with port":          {"the port moves to its field", "192.0.2.10:2222", "", want{"192.0.2.10", 2222}},
		"IPv6":                    {"no brackets", "2001:db8::10", "", want{"2001:db8::10", 22}},
		"IPv6 and port field":     {"no brackets", "2001:db8::10", "2222", want{"2001:db8::10", 2222}},
		"IPv6 in brackets":        {"brackets go", "'[2001:db8::10]'", "", want{"2001:db8::10", 22}},
		"brackets and port field": {"brackets go", "'[2001:db8::10]'", "2222", want{"2001:db8::10", 2222}},
		"brackets with port":      {"the port moves to its field", "'[2001:db8::10]:2222'", "", want{"2001:db8::10", 2222}},
		"brackets with same port": {"twice the same is no doubt", "'[2001:db8::10]:2222'", "2222", want{"2001:db8::10", 2222}},
		"IPv6 written out":        {"the shortest form is the one that known_hosts has", "2001:0DB8:0:0::10", "", want{"2001:db8::10", 22}},
		"IPv6 with a zone":        {"a link-local address needs it", "fe80::1%eth0", "", want{"fe80::1%eth0", 22}},
		"zone in brackets":        {"a link-local address needs it", "'[fe80::1%eth0]:2222'", "", want{"fe80::1%eth0", 2222}},
		"IPv4 mapped":             {"it is an IPv4 address", "::ffff:192.0.2.10", "", want{"192.0.2.10", 22}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pairs := []string{"address: beelink.example.net", "address: " + tc.address}
			if tc.port != "" {
				pairs = append(pairs, "user: egress", "user: egress\n      port: "+tc.port)
			}
			got, problems := load(t, edit(t, pairs...))
			if problems != nil {
				t.Fatalf("%s: must be read, is refused: %v", tc.reason, problems)
			}
			if diff := cmp.Diff(tc.want, want{got.Hosts[0].Address, got.Hosts[0].Port}); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestLoad_addressRefused(t *testing.T) {
	cases := map[string]struct {
		reason        string
		address, want string
	}{
		"ports differ":        {"which one is meant", "'[2001:db8::10]:2222'\n      port: 22", "carries port 2222 while port is 22: leave one of them out"},
		"URL":                 {"a virsh habit", "qemu+ssh://root@kvm1/system", "must be a host name or an IP address, not a URL"},
		"user":                {"an ssh habit", "root@kvm1", "must not carry a user name: that goes to user"},
		"mistyped IPv4":       {"no name ends in a number", "192.0.2.300", `is neither a host name nor an IP address: "192.0.2.300"`},
		"huge last label":     {"no name ends in a number", "a.99999999999999999999", `is neither a host name nor an IP address: "a.99999999999999999999"`},
		"space":               {"no name has one", "'kvm1 '", `is neither a host name nor an IP address: "kvm1 "`},
		"newline":             {"a message shows what cannot be seen", `"kvm1\n"`, `is neither a host name nor an IP address: "kvm1\n"`},
		"not ASCII":           {"SSH and known_hosts know xn-- names", "kvm-bär", `is neither a host name nor an IP address: "kvm-bär"`},
		"two dots":            {"an empty label", "kvm1..lab", `is neither a host name nor an IP address: "kvm1..lab"`},
		"IPv4 in brackets":    {"brackets are IPv6", "'[192.0.2.10]'", `must have an IPv6 address between its brackets, is "[192.0.2.10]"`},
		"open bracket":        {"half a pair", "'[2001:db8::10'", `must have an IPv6 address between its brackets, is "[2001:db8::10"`},
		"doubled brackets":    {"one pair", "'[[2001:db8::10]]'", `must have an IPv6 address between its brackets, is "[[2001:db8::10]]"`},
		"port 0":              {"no port", "kvm1:0", `must be a host name or an IP address, or one with a port of 1 to 65535, is "kvm1:0"`},
		"port 70000":          {"no port", "kvm1:70000", `must be a host name or an IP address, or one with a port of 1 to 65535, is "kvm1:70000"`},
		"no port after colon": {"no port", "'kvm1:'", `must be a host name or an IP address, or one with a port of 1 to 65535, is "kvm1:"`},
		"signed port":         {"digits", "kvm1:+22", `must be a host name or an IP address, or one with a port of 1 to 65535, is "kvm1:+22"`},
		"everybody":           {"one host", "0.0.0.0", `must be the address of one host, is "0.0.0.0"`},
		"space in a zone":     {"no interface has one", "'fe80::1%a b'", `must be the address of one host, is "fe80::1%a b"`},
		"longer than DNS":     {"255 octets on the wire", strings.Repeat("a.", 127) + "b", `is neither a host name nor an IP address: "` + strings.Repeat("a.", 32) + `"...`},
		"broken IPv6":         {"a colon too many", "2001:db8:::10", `is neither a host name nor an IP address: "2001:db8:::10"`},
		"only a port":         {"no host", "':22'", `is neither a host name nor an IP address: ":22"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, got := load(t, edit(t, "address: beelink.example.net", "address: "+tc.address))
			if diff := cmp.Diff([]string{"providers[0].kvm2.hosts[0].address: " + tc.want}, got); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestLoad_digestSpellings(t *testing.T) {
	const at = "providers[0].kvm2.images.debian-13.sha256: "
	const expected = at + "must be a SHA-256, 64 hex digits as sha256sum prints them first, is "
	digits := strings.Repeat("1234567890", 7)[:64]
	cases := map[string]struct {
		reason     string
		digest     string
		want       string
		wantRefuse string
	}{
		"as it is":      {"the normal form", goodDigest, goodDigest, ""},
		"upper case":    {"hex has no case", strings.ToUpper(goodDigest), goodDigest, ""},
		"prefix":        {"as registries write it", "sha256:" + goodDigest, goodDigest, ""},
		"upper prefix":  {"as registries write it", "'SHA256: " + goodDigest + "'", goodDigest, ""},
		"spaces":        {"copied from a page", "'  " + goodDigest + "  '", goodDigest, ""},
		"newline":       {"a block scalar ends in one", `"` + goodDigest + `\n"`, goodDigest, ""},
		"only digits":   {"YAML takes it for a number", digits, digits, ""},
		"BSD line":      {"not a digest alone", "'SHA256 (debian.qcow2) = " + goodDigest + "'", "", expected + `"SHA256 (debian.qcow2) = 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b"...`},
		"GNU line":      {"not a digest alone", "'" + goodDigest + "  a.qcow2'", "", expected + `"` + goodDigest + `"...`},
		"SHA-512":       {"another hash, said so", goodDigest + goodDigest, "", at + "must be a SHA-256, 64 hex digits; this is as long as a SHA-512"},
		"63 characters": {"one is missing", goodDigest[1:], "", expected + `"` + goodDigest[1:] + `"`},
		"not hex":       {"a letter too far", "g" + goodDigest[1:], "", expected + `"g` + goodDigest[1:] + `"`},
		"page":          {"an HTML page", "'<html>'", "", expected + `"<html>"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, problems := load(t, edit(t, goodDigest, tc.digest))
			if tc.wantRefuse != "" {
				if diff := cmp.Diff([]string{tc.wantRefuse}, problems); diff != "" {
					t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
				}
				return
			}
			if problems != nil {
				t.Fatalf("%s: must be read, is refused: %v", tc.reason, problems)
			}
			if diff := cmp.Diff(tc.want, got.Images["debian-13"].SHA256); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestLoad_homeOfPaths(t *testing.T) {
	const refused = "providers[0].kvm2.sshKeyFile: begins with ~/, and HOME is not set: write an absolute path"
	cases := map[string]struct {
		reason, home, want string
		problems           []string
	}{
		"set":      {"~/ is the home directory", "/home/me", "/home/me/.ssh/id", nil},
		"not set":  {"a container's user has no home", "", "", []string{refused}},
		"relative": {"nonsense in HOME is no path", "me", "", []string{refused}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Setenv("HOME", tc.home)
			got, problems := load(t, edit(t, "/etc/kvm-ssh/id_ed25519", "~/.ssh/id"))
			if diff := cmp.Diff(tc.problems, problems); diff != "" {
				t.Fatalf("%s: -want, +got:\n%s", tc.reason, diff)
			}
			if got != nil && got.SSHKeyFile != tc.want {
				t.Errorf("%s: want %s, got %s", tc.reason, tc.want, got.SSHKeyFile)
			}
		})
	}
}

func TestLoad_neverRepeatsAURLsPassword(t *testing.T) {
	for _, url := range []string{"https://me:" + sentinel + "@host/a", "https://me:" + sentinel + "@host:port/a", "ftp://me:" + sentinel + "@host/", "https://me:" + sentinel + "%zz@host/"} {
		_, problems := load(t, edit(t, "https://images.example.org/debian-13.qcow2", url))
		if len(problems) != 1 || leaks(problems[0]) {
			t.Errorf("a URL with a password must be refused without repeating it, got %q", problems)
		}
		_, err := provider.Load([]byte(edit(t, "https://check.example.org/ip", url)))
		if err == nil || leaks(err.Error()) {
			t.Errorf("a check URL with a password must be refused without repeating it, got %v", err)
		}
	}
}
