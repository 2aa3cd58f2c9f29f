package kvm2

import (
	"strings"
	"testing"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

func TestImageKey_credentialsDoNotDecide(t *testing.T) {
	key := func(url string) imageKey {
		return keyFor(t, provider.KVMImage{URL: url, InsecureSkipChecksum: true})
	}
	if key("https://me:pw@mirror.example.net/x") != key("https://mirror.example.net/x") {
		t.Error("a changed password makes another base, and its hash is in a name")
	}
	if key("https://mirror.example.net/x?v=1") == key("https://mirror.example.net/x?v=2") {
		t.Error("two URLs share a base")
	}
}

func TestImageKey_namesMeetNoInstance(t *testing.T) {
	for _, img := range []provider.KVMImage{testImage(t), {URL: "http://mirror.example.net/x", InsecureSkipChecksum: true}} {
		key := keyFor(t, img)
		longest := strings.Repeat("a", 63)
		for _, name := range []string{key.marker(), key.newBase(testName, provider.FormatQCOW2), key.newBase(testName, provider.FormatRaw)} {
			if len(name) <= len(seedName(longest)) {
				t.Errorf("%s is short enough to be an instance's volume", name)
			}
			if len(name) > 255 {
				t.Errorf("%s is too long for a file name", name)
			}
		}
	}
}

func TestImageKey_knowsItsBases(t *testing.T) {
	key := keyFor(t, testImage(t))
	if name := key.newBase(testName, provider.FormatQCOW2); !key.isBase(name) || name == key.newBase(testName, provider.FormatQCOW2) {
		t.Errorf("%s is no base of its key, or not new each time", name)
	}
	for _, name := range []string{
		key.marker(), "", basePrefix + string(key), basePrefix + string(key) + "-.qcow2", basePrefix + string(key) + "-0000000g.qcow2",
		basePrefix + strings.Repeat("0", 64) + "-00000000.qcow2", "x" + key.newBase(testName, provider.FormatQCOW2), key.newBase(testName, provider.FormatQCOW2) + ".bak",
	} {
		if key.isBase(name) {
			t.Errorf("%q is taken for a base", name)
		}
	}
}
