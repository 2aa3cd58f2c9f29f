package kvm2

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

func TestRender_givesWhatCreateSendsWithoutAHost(t *testing.T) {
	r := newRig(t)
	req := testRequest()
	docs, err := r.Render(req)
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]string{}
	for _, d := range docs {
		byName[d.Name] = d.Content
	}
	if len(byName) != 4 || len(docs) != 4 {
		t.Fatalf("documents %v, want four with different names", docs)
	}
	if byName["user-data"] != string(req.CloudInit) {
		t.Errorf("user-data %q, want the request's", byName["user-data"])
	}
	for name, part := range map[string]string{
		"domain.xml": "<name>" + testName + "</name>", "meta-data": "instance-id: " + testUID, "vendor-data": "qemu-guest-agent",
	} {
		if !strings.Contains(byName[name], part) {
			t.Errorf("%s lacks %q:\n%s", name, part, byName[name])
		}
	}
	if strings.Contains(byName["domain.xml"], string(req.CloudInit)) {
		t.Error("the domain's XML holds user-data")
	}
	again, err := r.Render(req)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(docs, again); diff != "" {
		t.Errorf("rendered again: -first, +second:\n%s", diff)
	}
	if n := r.dialer.dialed("beelink"); n != 0 {
		t.Errorf("the host was dialled %d times", n)
	}
}

func TestRender_refusesWhatCreateRefuses(t *testing.T) {
	_, err := newRig(t).Render(testRequest(func(req *provider.CreateRequest) { req.Placement.Zone = "nowhere" }))
	wantErr(t, err, provider.ErrPermanent, provider.ReasonUnknownZone)
}
