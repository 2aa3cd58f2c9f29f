package provider_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

const goodDigest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

// goodFile is a valid file; edits replace parts of it.
const goodFile = `checkURL: https://check.example.org/ip
providers:
- name: kvm2-home
  type: kvm2
  kvm2:
    hosts:
    - name: beelink
      address: beelink.example.net
      user: egress
    sshKeyFile: /etc/kvm-ssh/id_ed25519
    knownHostsFile: /etc/kvm-ssh/known_hosts
    machineTypes:
      small: {vcpus: 1, memoryMiB: 1024, diskSizeGb: 8}
    images:
      debian-13:
        url: https://images.example.org/debian-13.qcow2
        sha256: ` + goodDigest + `
`

func goodEntry() provider.Entry {
	return provider.Entry{Name: "kvm2-home", Type: "kvm2", KVM2: &provider.KVMConfig{
		Hosts: []provider.KVMHost{{
			Name: "beelink", Address: "beelink.example.net", Port: 22, User: "egress",
			Socket: "/run/libvirt/libvirt-sock", Pool: "default", Bridge: "br0",
		}},
		SSHKeyFile: "/etc/kvm-ssh/id_ed25519", KnownHostsFile: "/etc/kvm-ssh/known_hosts",
		MachineTypes: map[string]provider.KVMMachineType{"small": {VCPUs: 1, MemoryMiB: 1024, DiskSizeGb: 8}},
		Images: map[string]provider.KVMImage{"debian-13": {
			URL: "https://images.example.org/debian-13.qcow2", SHA256: goodDigest, Firmware: "uefi", Format: "qcow2",
		}},
	}}
}

// edit replaces pairs of text in goodFile, each of which must stand there.
func edit(t *testing.T, pairs ...string) string {
	t.Helper()
	out := goodFile
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(out, pairs[i]) {
			t.Fatalf("the test's file has no %q to replace", pairs[i])
		}
		out = strings.ReplaceAll(out, pairs[i], pairs[i+1])
	}
	return out
}

// lines gives each problem as text.
func lines(ps provider.Problems) []string {
	var out []string
	for _, p := range ps {
		out = append(out, p.String())
	}
	return out
}

func TestLoad_setsDefaults(t *testing.T) {
	got, err := provider.Load([]byte(goodFile))
	if err != nil {
		t.Fatalf("a valid file must load: %v", err)
	}
	want := provider.Config{CheckURL: "https://check.example.org/ip", Providers: []provider.Entry{goodEntry()}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what the file does not say has its default: -want, +got:\n%s", diff)
	}
}

func TestLoad_keepsWhatIsSaid(t *testing.T) {
	got, err := provider.Load([]byte(edit(t,
		"      user: egress", "      user: egress\n      port: 2222\n      socket: /run/x\n      pool: vms\n      bridge: br1",
		"        sha256: "+goodDigest, "        insecureSkipChecksum: true\n        firmware: bios\n        format: raw",
		"    knownHostsFile: /etc/kvm-ssh/known_hosts", "    insecureIgnoreHostKey: true",
		"    machineTypes:", "    extraVendorData: |\n      #!/bin/sh\n      echo hello\n    machineTypes:",
		"https://check.example.org/ip", "none")))
	if err != nil {
		t.Fatalf("a valid file must load: %v", err)
	}
	want := goodEntry()
	want.KVM2.Hosts[0].Port, want.KVM2.Hosts[0].Socket = 2222, "/run/x"
	want.KVM2.Hosts[0].Pool, want.KVM2.Hosts[0].Bridge = "vms", "br1"
	want.KVM2.Images["debian-13"] = provider.KVMImage{
		URL: "https://images.example.org/debian-13.qcow2", InsecureSkipChecksum: true, Firmware: "bios", Format: "raw",
	}
	want.KVM2.KnownHostsFile, want.KVM2.InsecureIgnoreHostKey = "", true
	want.KVM2.ExtraVendorData = "#!/bin/sh\necho hello\n"
	if diff := cmp.Diff(provider.Config{CheckURL: "none", Providers: []provider.Entry{want}}, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

func TestLoad_wholeFileErrors(t *testing.T) {
	cases := map[string]struct {
		reason string
		file   string
		want   []string
	}{
		"empty":           {"nothing is no configuration", "", []string{"the file is empty"}},
		"comments only":   {"nothing is no configuration", "# later\n", []string{"the file is empty"}},
		"not YAML":        {"the parser says where", "a: [", []string{"not YAML: yaml: line 1: did not find expected node content"}},
		"two documents":   {"which one would count", goodFile + "---\n" + goodFile, []string{"the file must hold one YAML document and no more"}},
		"a list":          {"only what is wrong first is told", "- a\n", []string{"must be a mapping, is a list"}},
		"too large":       {"bounded", "#" + strings.Repeat("x", 1<<20), []string{"the file must have at most 1048576 bytes, has 1048577"}},
		"no check URL":    {"it is required", edit(t, "checkURL: https://check.example.org/ip\n", ""), []string{"checkURL: is required: an http or https URL that each proxy is tried with, or none"}},
		"check URL ftp":   {"http or https", edit(t, "https://check.example.org/ip", "ftp://check.example.org"), []string{"checkURL: must be an http or https URL, or none"}},
		"check URL bare":  {"a URL has a scheme", edit(t, "https://check.example.org/ip", "check.example.org"), []string{"checkURL: must be an http or https URL, or none"}},
		"check URL None":  {"one spelling of none", edit(t, "https://check.example.org/ip", "None"), []string{"checkURL: must be an http or https URL, or none"}},
		"check URL user":  {"the URL reaches logs and proxies", edit(t, "https://check", "https://user:pw@check"), []string{"checkURL: must be a URL without user name and password, or none"}},
		"check URL list":  {"one problem for one value", edit(t, "https://check.example.org/ip", "[a]"), []string{"checkURL: must be text, is a list"}},
		"no providers":    {"a file without the list is a mistake", "checkURL: none\n", []string{"providers: is required: a list of entries"}},
		"null providers":  {"a list whose entries are all commented out", "checkURL: none\nproviders:\n# - name: a\n", []string{"providers: is required: a list of entries"}},
		"providers a map": {"a list", "checkURL: none\nproviders: {}\n", []string{"providers: must be a list, is a mapping"}},
		"unknown key":     {"unknown keys are refused", goodFile + "provider: []\n", []string{"provider: unknown key; the keys here are checkURL, providers"}},
		"key twice":       {"one of them would be lost", goodFile + "checkURL: none\n", []string{"checkURL: stands twice, again in line 18"}},
		"with a bad entry": {
			"everything at once, entries included",
			edit(t, "https://check.example.org/ip", "x", "vcpus: 1,", "vcpus: 0,"),
			[]string{"checkURL: must be an http or https URL, or none", "providers[0].kvm2.machineTypes.small.vcpus: must be 1 to 512, is 0"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			config, err := provider.Load([]byte(tc.file))
			var problems provider.Problems
			if !errors.As(err, &problems) {
				t.Fatalf("%s: want Problems, got %v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.want, lines(problems)); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(provider.Config{}, config); diff != "" {
				t.Errorf("%s: no configuration beside an error: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestLoad_emptyListIsAllowed(t *testing.T) {
	got, err := provider.Load([]byte("checkURL: none\nproviders: []\n"))
	if err != nil || len(got.Providers)+len(got.Broken) != 0 {
		t.Errorf("whoever removes the last entry must get what they say: want no entries and no error, got %+v, %v", got, err)
	}
}

func TestLoad_utf8BOMAndCRLF(t *testing.T) {
	got, err := provider.Load([]byte("\ufeff" + strings.ReplaceAll(goodFile, "\n", "\r\n")))
	if err != nil {
		t.Fatalf("a file saved on Windows must load: %v", err)
	}
	if diff := cmp.Diff([]provider.Entry{goodEntry()}, got.Providers); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}

// entry is one more valid entry of goodFile's kind, edited.
func entry(t *testing.T, name string, pairs ...string) string {
	t.Helper()
	file := edit(t, append([]string{"name: kvm2-home", "name: " + name}, pairs...)...)
	_, list, _ := strings.Cut(file, "providers:\n")
	return list
}

func TestLoad_aBrokenEntryDoesNotSpoilTheOthers(t *testing.T) {
	file := "checkURL: none\nproviders:\n" +
		entry(t, "one") +
		entry(t, "two", "user: egress", "user: egress\n      port: 0") +
		entry(t, "one") +
		entry(t, "four", "user: egress", "user: egress\n      prot: 22") +
		entry(t, "five", "address: beelink.example.net", `address: ""`) +
		entry(t, "six", "user: egress", "user: egress\n      port: 70000") +
		entry(t, "seven", "  type: kvm2", "  type: kvm2\n  type: kvm2") +
		"- just text\n" +
		"-\n" +
		entry(t, "ten")
	got, err := provider.Load([]byte(file))
	if err != nil {
		t.Fatalf("entries are no matter of the file: %v", err)
	}
	var good []string
	for _, e := range got.Providers {
		good = append(good, e.Name)
	}
	if diff := cmp.Diff([]string{"one", "ten"}, good); diff != "" {
		t.Errorf("good entries go on: -want, +got:\n%s", diff)
	}
	want := []provider.BrokenEntry{
		{Index: 1, Name: "two", Type: "kvm2", Problems: provider.Problems{{"providers[1].kvm2.hosts[0].port", "must be 1 to 65535, is 0"}}},
		{Index: 2, Name: "", Type: "kvm2", Problems: provider.Problems{{"providers[2].name", "is taken by providers[0]: an entry needs a name of its own"}}},
		{Index: 3, Name: "four", Type: "kvm2", Problems: provider.Problems{{"providers[3].kvm2.hosts[0].prot", "unknown key; the keys here are name, address, port, user, socket, pool, bridge"}}},
		{Index: 4, Name: "five", Type: "kvm2", Problems: provider.Problems{{"providers[4].kvm2.hosts[0].address", "is required: a host name or an IP address"}}},
		{Index: 5, Name: "six", Type: "kvm2", Problems: provider.Problems{{"providers[5].kvm2.hosts[0].port", "must be 1 to 65535, is 70000"}}},
		{Index: 6, Name: "seven", Type: "kvm2", Problems: provider.Problems{{"providers[6].type", "stands twice, again in line 98"}}},
		{Index: 7, Problems: provider.Problems{{"providers[7]", `must be a mapping, is the text "just text"`}}},
		{Index: 8, Problems: provider.Problems{{"providers[8]", "is empty"}}},
	}
	if diff := cmp.Diff(want, got.Broken); diff != "" {
		t.Errorf("each broken entry is told on its own: -want, +got:\n%s", diff)
	}
}

func TestConfigEntry_table(t *testing.T) {
	config, err := provider.Load([]byte("checkURL: none\nproviders:\n" + entry(t, "good") +
		entry(t, "bad", "vcpus: 1", "vcpus: 0", "memoryMiB: 1024", "memoryMiB: 1")))
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		reason string
		name   string
		want   string // of the error; "" for none
	}{
		"good":    {"another entry's fault is no matter", "good", ""},
		"bad":     {"all that is wrong with it", "bad", "entry bad of the providers file: providers[1].kvm2.machineTypes.small.vcpus: must be 1 to 512, is 0; providers[1].kvm2.machineTypes.small.memoryMiB: must be 128 to 16777216 MiB, is 1"},
		"unknown": {"which names there are", "other", `the providers file has no usable entry "other"; it has good`},
		"none":    {"no name is no broken entry's name", "", `the providers file has no usable entry ""; it has good`},
	}
	for label, tc := range cases {
		t.Run(label, func(t *testing.T) {
			got, err := config.Entry(tc.name)
			if tc.want == "" {
				if err != nil || got.Name != tc.name {
					t.Errorf("%s: want the entry, got %q, %v", tc.reason, got.Name, err)
				}
				return
			}
			if err == nil || !errors.Is(err, provider.ErrPermanent) {
				t.Fatalf("%s: want ErrPermanent, got %v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.want, err.Error()); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestKVMConfigHost_findsTheZone(t *testing.T) {
	config := &provider.KVMConfig{Hosts: []provider.KVMHost{{Name: "beelink", Address: "a"}, {Name: "cellar", Address: "b"}}}
	if got, ok := config.Host("cellar"); !ok || got.Address != "b" {
		t.Errorf("want host b of zone cellar, got %+v, %v", got, ok)
	}
	if got, ok := config.Host("attic"); ok {
		t.Errorf("there is no zone attic, got %+v", got)
	}
}

func FuzzLoad(f *testing.F) {
	for _, seed := range []string{
		goodFile, "", "a: &a [*a]\n", "checkURL: none\nproviders: [{<<: {a: b}}, ~, !!binary x, {name: [1], type: {}}]",
		"? [a]\n: b", "checkURL: 0x1F\nproviders:\n- kvm2: {hosts: [~, {port: 99999999999999999999}], images: {~: ~}}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		config, err := provider.Load(data)
		if err != nil {
			return
		}
		for _, b := range config.Broken {
			if len(b.Problems) == 0 {
				t.Errorf("a broken entry must say why, entry %d does not", b.Index)
			}
		}
		for _, e := range config.Providers {
			if e.Name == "" || e.KVM2 == nil || len(e.KVM2.Hosts) == 0 {
				t.Errorf("a usable entry has a name, its block and a host, is %+v", e)
			}
		}
	})
}
