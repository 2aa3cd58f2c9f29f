package kvm2

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

func TestBestVirtualization_table(t *testing.T) {
	const i686 = `<guest><os_type>hvm</os_type><arch name='i686'><machine canonical='pc-q35-7.2'>q35</machine><domain type='qemu'/><domain type='kvm'/></arch></guest>`
	host := func(arch, guests string) string {
		return `<capabilities><host><cpu><arch>` + arch + `</arch><model>EPYC</model></cpu></host>` + guests + `</capabilities>`
	}
	guest := func(arch, machines, domains string) string {
		return `<guest><os_type>hvm</os_type><arch name='` + arch + `'><wordsize>64</wordsize>` + machines + domains + `</arch></guest>`
	}
	const q35 = `<machine maxCpus='288'>pc-q35-7.2</machine><machine canonical='pc-q35-7.2' maxCpus='288'>q35</machine>`
	cases := map[string]struct {
		reason, doc string
		want        virtualization
	}{
		"KVM":               {"it is many times faster", host("x86_64", i686+guest("x86_64", q35, `<domain type='qemu'/><domain type='kvm'/>`)), virtualization{virtKVM, "x86_64", "q35"}},
		"no KVM":            {"libvirt lists kvm only where it is usable", host("x86_64", i686+guest("x86_64", q35, `<domain type='qemu'/>`)), virtualization{virtQEMU, "x86_64", "q35"}},
		"RHEL's names":      {"the alias exists there too", host("x86_64", guest("x86_64", `<machine canonical='pc-q35-rhel9.4.0'>q35</machine>`, `<domain type='kvm'/>`)), virtualization{virtKVM, "x86_64", "q35"}},
		"machines by type":  {"a domain type may have a list of its own", host("x86_64", guest("x86_64", "", `<domain type='kvm'><machine canonical='pc-q35-9.0'>q35</machine></domain>`)), virtualization{virtKVM, "x86_64", "q35"}},
		"no q35":            {"libvirt's default machine then", host("x86_64", guest("x86_64", `<machine>microvm</machine>`, `<domain type='kvm'/>`)), virtualization{virtKVM, "x86_64", ""}},
		"Arm":               {"the machine is called virt there", host("aarch64", guest("aarch64", `<machine canonical='virt-7.2'>virt</machine>`, `<domain type='kvm'/>`)), virtualization{virtKVM, "aarch64", "virt"}},
		"other arch beside": {"the host's own architecture counts", host("x86_64", guest("aarch64", "", `<domain type='qemu'/>`)+guest("x86_64", q35, `<domain type='kvm'/>`)), virtualization{virtKVM, "x86_64", "q35"}},
		"paravirtual beside": {"only full virtualization counts", host("x86_64", `<guest><os_type>xen</os_type><arch name='x86_64'><domain type='kvm'/></arch></guest>`+guest("x86_64", q35, `<domain type='qemu'/>`)),
			virtualization{virtQEMU, "x86_64", "q35"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := bestVirtualization(tc.doc)
			if err != nil {
				t.Fatalf("bestVirtualization: %v", err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestBestVirtualization_noneIsTransient(t *testing.T) {
	for name, doc := range map[string]string{
		"no XML":         "nothing",
		"no guest":       "<capabilities><host><cpu><arch>x86_64</arch></cpu></host></capabilities>",
		"no arch":        "<capabilities><host/></capabilities>",
		"only other":     "<capabilities><host><cpu><arch>riscv64</arch></cpu></host><guest><os_type>hvm</os_type><arch name='x86_64'><domain type='qemu'/></arch></guest></capabilities>",
		"unknown domain": "<capabilities><host><cpu><arch>x86_64</arch></cpu></host><guest><os_type>hvm</os_type><arch name='x86_64'><domain type='hvf'/></arch></guest></capabilities>",
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := bestVirtualization(doc); !errors.Is(err, provider.ErrTransient) {
				t.Errorf("gives %+v, %v, want ErrTransient: QEMU may be installed later", got, err)
			}
		})
	}
}
