package kvm2

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func parseMetadata(t *testing.T, metadata string) domainInfo {
	t.Helper()
	info, err := parseDomain("<domain type='kvm'><name>vm</name><metadata>" + metadata + "</metadata></domain>")
	if err != nil {
		t.Fatalf("parseDomain: %v", err)
	}
	return info
}

func TestParseMetadata_withNamespace(t *testing.T) {
	cases := map[string]struct{ reason, metadata string }{
		"our prefix": {
			"as it was written",
			`<kvm2:instance xmlns:kvm2="https://gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/kvm2"><kvm2:managed>true</kvm2:managed><kvm2:uid>` + testUID + `</kvm2:uid><kvm2:owner>1a2b3c4d</kvm2:owner><kvm2:ref>default/berlin-1</kvm2:ref><kvm2:createdAt>2026-11-29T12:00:00Z</kvm2:createdAt></kvm2:instance>`,
		},
		"another prefix": {
			"the prefix means nothing",
			`<x:instance xmlns:x="https://gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/kvm2"><x:managed>true</x:managed><x:uid>` + testUID + `</x:uid><x:owner>1a2b3c4d</x:owner><x:ref>default/berlin-1</x:ref><x:createdAt>2026-11-29T13:00:00+01:00</x:createdAt></x:instance>`,
		},
		"beside others": {
			"another tool's element of the same name is not ours",
			`<instance xmlns="urn:other"><uid>theirs</uid></instance><lib:os xmlns:lib="http://libosinfo.org/xmlns/libvirt/domain/1.0" id="x"/>` +
				`<kvm2:instance xmlns:kvm2="https://gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/kvm2"><kvm2:managed>true</kvm2:managed><kvm2:uid>` + testUID + `</kvm2:uid><kvm2:owner>1a2b3c4d</kvm2:owner><kvm2:ref>default/berlin-1</kvm2:ref><kvm2:createdAt>2026-11-29T12:00:00Z</kvm2:createdAt></kvm2:instance>`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			info := parseMetadata(t, tc.metadata)
			if diff := cmp.Diff(testMark(), info.Mark); diff != "" || !info.HasMark {
				t.Errorf("%s: HasMark is %v, mark -want, +got:\n%s", tc.reason, info.HasMark, diff)
			}
		})
	}
}

// libvirt hands the element back without the declaration of its namespace.
func TestParseMetadata_withoutNamespaceDeclaration(t *testing.T) {
	cases := map[string]struct{ reason, metadata string }{
		"bare prefix": {
			"the full XML may keep the prefix",
			`<kvm2:instance><kvm2:managed>true</kvm2:managed><kvm2:uid>` + testUID + `</kvm2:uid><kvm2:owner>1a2b3c4d</kvm2:owner><kvm2:ref>default/berlin-1</kvm2:ref><kvm2:createdAt>2026-11-29T12:00:00Z</kvm2:createdAt></kvm2:instance>`,
		},
		"no prefix": {
			"virDomainGetMetadata strips both",
			`<instance><managed>true</managed><uid>` + testUID + `</uid><owner>1a2b3c4d</owner><ref>default/berlin-1</ref><createdAt>2026-11-29T12:00:00Z</createdAt></instance>`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			info := parseMetadata(t, tc.metadata)
			if diff := cmp.Diff(testMark(), info.Mark); diff != "" || !info.HasMark {
				t.Errorf("%s: HasMark is %v, mark -want, +got:\n%s", tc.reason, info.HasMark, diff)
			}
		})
	}
}

func TestParseMetadata_absentGivesEmptyUID(t *testing.T) {
	cases := map[string]struct {
		reason, metadata string
		hasMark          bool
	}{
		"nothing":          {"most domains have none", "", false},
		"only others":      {"another tool's metadata is not ours", `<lib:os xmlns:lib="http://libosinfo.org/xmlns/libvirt/domain/1.0"><lib:uid>x</lib:uid></lib:os>`, false},
		"same local name":  {"a namespace of its own says whose it is", `<instance xmlns="urn:other"><uid>x</uid></instance>`, false},
		"foreign prefix":   {"a prefix that is not ours says whose it is", `<nova:instance><nova:uid>x</nova:uid></nova:instance>`, false},
		"nested elsewhere": {"the mark is at the top", `<a xmlns="urn:a"><instance xmlns="https://gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/kvm2"><uid>x</uid></instance></a>`, false},
		"empty mark":       {"a half-made instance has a mark without UID", `<kvm2:instance xmlns:kvm2="https://gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/kvm2"/>`, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			info := parseMetadata(t, tc.metadata)
			if info.Mark != (mark{}) || info.HasMark != tc.hasMark {
				t.Errorf("%s: HasMark is %v, want %v; mark is %+v, want the zero one", tc.reason, info.HasMark, tc.hasMark, info.Mark)
			}
		})
	}
}

func TestParseMetadata_badTimeKeepsTheUID(t *testing.T) {
	info := parseMetadata(t, `<kvm2:instance><kvm2:uid>u</kvm2:uid><kvm2:createdAt>yesterday</kvm2:createdAt></kvm2:instance>`)
	if info.Mark.UID != "u" || !info.Mark.CreatedAt.Equal(time.Time{}) {
		t.Errorf("mark is %+v, want UID u and no time", info.Mark)
	}
}
