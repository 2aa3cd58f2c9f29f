package egressctl_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider/fake"
)

// rendering has the documents of a request.
type rendering struct{ *fake.Provider }

func (rendering) Render(req provider.CreateRequest) ([]provider.Document, error) {
	return []provider.Document{
		{Name: "domain.xml", Content: "<domain><name>" + req.Name + "</name></domain>\n"},
		{Name: "user-data", Content: string(req.CloudInit)},
	}, nil
}

func rendersDesk(t *testing.T) *desk {
	t.Helper()
	d := newDesk(t, "beelink")
	d.wrap = func(p *fake.Provider) provider.Provider { return rendering{p} }
	return d
}

var hash = regexp.MustCompile(`\$2[aby]\$`)

func TestRender_showsWhatCreateWouldSend(t *testing.T) {
	d := rendersDesk(t)
	e := d.must("render", "berlin-1", "--auth-user", "alice")
	for _, part := range []string{"==> domain.xml <==\n<domain><name>proxy-", "\n\n==> user-data <==\n#cloud-config\n", "alice:[hidden without --show-secrets]"} {
		if !strings.Contains(e.out, part) {
			t.Errorf("the output does not have %q:\n%s", part, e.out)
		}
	}
	if hash.MatchString(e.out) {
		t.Error("a hash is shown without --show-secrets")
	}
	if !hash.MatchString(d.must("render", "berlin-1", "--auth-user", "alice", "--show-secrets").out) {
		t.Error("no hash is shown with --show-secrets")
	}
}

func TestRender_touchesAndRecordsNothing(t *testing.T) {
	d := rendersDesk(t)
	d.must("render", "berlin-1", "--allow-source", "198.51.100.0/24")
	for _, call := range []fake.Call{fake.LookUp, fake.Create, fake.Get, fake.ListZone} {
		if n := d.backend.Calls(call); n != 0 {
			t.Errorf("%d calls %q went to a host", n, call)
		}
	}
	d.wantNothing()
}

func TestRender_ofARecordedInstanceIsWhatItWasMadeFrom(t *testing.T) {
	d := rendersDesk(t)
	d.env["EGRESSCTL_PASSWORD"] = "open sesame"
	d.must("create", "berlin-1", "--auth-user", "alice", "-q")
	made := string(d.backend.Instances()[0].CloudInit)
	d.env["EGRESSCTL_PASSWORD"] = ""
	if got := d.must("render", "berlin-1", "--show-secrets", "--document", "user-data").out; got != made {
		t.Error("the rendered user-data is not what the instance was made from")
	}
	before := d.read("state/instances/kvm2-home_berlin-1.json")
	if got := d.must("render", "berlin-1", "--port", "8118").out; !strings.Contains(got, "8118") {
		t.Error("a flag does not change the output")
	}
	if d.read("state/instances/kvm2-home_berlin-1.json") != before {
		t.Error("render changed the record")
	}
}

func TestRender_structured(t *testing.T) {
	d := rendersDesk(t)
	var got struct {
		Documents []struct{ Name, Content string }
	}
	e := d.must("render", "berlin-1", "--allow-source", "198.51.100.0/24", "-o", "json")
	if err := json.Unmarshal([]byte(e.out), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Documents) != 2 || got.Documents[0].Name != "domain.xml" || !strings.HasPrefix(got.Documents[1].Content, "#cloud-config\n") {
		t.Errorf("got %+v", got)
	}
}

func TestRender_hidesOwnUserData(t *testing.T) {
	d := rendersDesk(t)
	d.stdin = "#!/bin/sh\necho s3cret\n"
	args := []string{"render", "berlin-1", "--user-data-file", "-"}
	if got := d.must(args...).out; strings.Contains(got, "s3cret") || !strings.Contains(got, "22 bytes of your own") {
		t.Errorf("own user-data is not hidden:\n%s", got)
	}
	if got := d.must(append(args, "--show-secrets")...).out; !strings.Contains(got, d.stdin) {
		t.Errorf("own user-data is not shown with --show-secrets:\n%s", got)
	}
}

func TestRender_unknownDocument(t *testing.T) {
	d := rendersDesk(t)
	e := d.run("render", "berlin-1", "--allow-source", "198.51.100.0/24", "--document", "network-config")
	wantFailure(t, e, egressctl.CodeUsage, "network-config", "domain.xml and user-data")
}
