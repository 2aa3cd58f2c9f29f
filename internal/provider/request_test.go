package provider_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

func validRequest() provider.CreateRequest {
	return provider.CreateRequest{
		Name: provider.InstanceName(testOwner, "default/berlin-1", testUID), UID: testUID, Owner: testOwner,
		Ref:       "default/berlin-1",
		Placement: provider.Placement{Zone: "beelink", MachineType: "small", Image: "debian-13"},
		CloudInit: provider.Secret("#cloud-config\n"),
	}
}

func TestValidate_table(t *testing.T) {
	type edit = func(*provider.CreateRequest)
	uid := func(s string) edit { return func(r *provider.CreateRequest) { r.UID = s } }
	name := func(s string) edit { return func(r *provider.CreateRequest) { r.Name = s } }
	owner := func(s string) edit { return func(r *provider.CreateRequest) { r.Owner = s } }
	ref := func(s string) edit { return func(r *provider.CreateRequest) { r.Ref = s } }
	data := func(n int) edit {
		return func(r *provider.CreateRequest) { r.CloudInit = []byte(strings.Repeat("x", n)) }
	}
	const (
		badName = "name must be a DNS label"
		badUID  = "uid must be an RFC 9562 UUID"
		badRef  = `ref must be "namespace/name"`
	)
	cases := map[string]struct {
		reason string
		edit   edit
		want   []string // parts of the error; none means valid
	}{
		"valid":              {"nothing is wrong", func(*provider.CreateRequest) {}, nil},
		"longest":            {"limits are inclusive", func(r *provider.CreateRequest) { data(1 << 20)(r); name(strings.Repeat("a", 63))(r) }, nil},
		"no name":            {"an instance needs a name", name(""), []string{badName}},
		"name of 64":         {"64 bytes are no label", name(strings.Repeat("a", 64)), []string{badName}},
		"name with a slash":  {"a name is part of a path", name("a/b"), []string{badName}},
		"name with a dot":    {"one label, not two", name("a.b"), []string{badName}},
		"name in upper case": {"DNS is not case sensitive, file names are", name("A"), []string{badName}},
		"name with hyphen":   {"no hyphen at the end", name("a-"), []string{badName}},
		"no uid":             {"an instance needs a UID", uid(""), []string{badUID}},
		"upper-case uid":     {"one spelling", uid(strings.ToUpper(testUID)), []string{badUID}},
		"urn uid":            {"one spelling", uid("urn:uuid:" + testUID), []string{badUID}},
		"braced uid":         {"one spelling", uid("{" + testUID + "}"), []string{badUID}},
		"nil uid":            {"the nil UUID identifies nothing", uid("00000000-0000-0000-0000-000000000000"), []string{badUID}},
		"max uid":            {"the max UUID identifies nothing", uid("ffffffff-ffff-ffff-ffff-ffffffffffff"), []string{badUID}},
		"no owner":           {"without an owner everything would be ours", owner(""), []string{"owner is empty"}},
		"owner with newline": {"control characters", owner("a\nb"), []string{"owner must be printable"}},
		"owner not UTF-8":    {"a mark is text", owner("a\xff"), []string{"owner must be printable"}},
		"owner not in XML":   {"U+FFFE cannot stand in XML", owner("a\ufffe"), []string{"owner must be printable"}},
		"long owner":         {"bounded", owner(strings.Repeat("a", 254)), []string{"owner must have at most 253"}},
		"no ref":             {"a mark tells what asked", ref(""), []string{"ref is empty"}},
		"ref without slash":  {"namespace and name", ref("a"), []string{badRef}},
		"ref with two":       {"one slash", ref("a/b/c"), []string{badRef}},
		"ref without name":   {"both parts", ref("a/"), []string{badRef}},
		"ref without first":  {"both parts", ref("/a"), []string{badRef}},
		"ref with a space":   {"no spaces", ref("a/b c"), []string{badRef}},
		"long ref":           {"bounded", ref("a/" + strings.Repeat("b", 316)), []string{"ref must have at most 317"}},
		"no cloud-init":      {"a VM without user-data is no proxy", data(0), []string{"cloudInit is empty"}},
		"large cloud-init":   {"bounded", data(1<<20 + 1), []string{"cloudInit must have at most 1048576 bytes, has 1048577"}},
		"everything":         {"all problems at once", func(r *provider.CreateRequest) { *r = provider.CreateRequest{} }, []string{badName, badUID, "owner is empty", "ref is empty", "cloudInit is empty"}},
	}
	for label, tc := range cases {
		t.Run(label, func(t *testing.T) {
			req := validRequest()
			tc.edit(&req)
			err := req.Validate()
			if tc.want == nil {
				if err != nil {
					t.Errorf("%s: want no error, got %v", tc.reason, err)
				}
				return
			}
			if !errors.Is(err, provider.ErrPermanent) || provider.ReasonOf(err) != provider.ReasonInvalidRequest {
				t.Fatalf("%s: want ErrPermanent with InvalidRequest, got %v", tc.reason, err)
			}
			for _, part := range tc.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%s: want %q in the message, got %q", tc.reason, part, err)
				}
			}
		})
	}
}

func TestValidate_neverTellsTheCloudInit(t *testing.T) {
	err := provider.CreateRequest{CloudInit: provider.Secret(strings.Repeat(sentinel, 1<<18))}.Validate()
	if err == nil || leaks(err.Error()) {
		t.Errorf("an invalid request must give an error that tells nothing of the cloud-init, got %v", err)
	}
}

func TestValidate_shortensWhatItRepeats(t *testing.T) {
	req := validRequest()
	req.Name = strings.Repeat("a", 1<<20)
	if err := req.Validate(); cmp.Equal(nil, err) || len(err.Error()) > 400 {
		t.Errorf("a message must stay short whatever it is about, has %d bytes", len(err.Error()))
	}
}
