package kvm2

import (
	"encoding/base64"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"os/exec"
	"strings"
	"testing"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// Cloud-config would be merged with the user's, and one of them would lose.
func TestVendorData_isShellScriptNotCloudConfig(t *testing.T) {
	got, err := vendorData("")
	if err != nil {
		t.Fatalf("vendorData: %v", err)
	}
	if !strings.HasPrefix(got, "#!/bin/sh\n") {
		t.Errorf("vendor-data begins with %.30q, want #!/bin/sh", got)
	}
	if !strings.Contains(got, "qemu-guest-agent") {
		t.Error("the script does not install the guest agent, which is how the address is found")
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-n")
	cmd.Stdin = strings.NewReader(got)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("sh does not accept the script: %v\n%s", err, out)
	}
}

func TestVendorData_multipartWhenExtraProvided(t *testing.T) {
	const extra = "#!/bin/sh\necho 'žluťoučký'\r\n--kvm2-not-a-boundary\n"
	got, err := vendorData(extra)
	if err != nil {
		t.Fatalf("vendorData: %v", err)
	}
	msg, err := mail.ReadMessage(strings.NewReader(got))
	if err != nil {
		t.Fatalf("it is no MIME message: %v", err)
	}
	mediaType, params, err := mime.ParseMediaType(msg.Header.Get("Content-Type"))
	if err != nil || mediaType != "multipart/mixed" {
		t.Fatalf("content type is %q (%v), want multipart/mixed", mediaType, err)
	}
	r := multipart.NewReader(msg.Body, params["boundary"])
	for _, want := range []string{agentScript, extra} {
		part, err := r.NextPart()
		if err != nil {
			t.Fatalf("a part is missing: %v", err)
		}
		if ct := part.Header.Get("Content-Type"); !strings.HasPrefix(ct, "text/x-shellscript") {
			t.Errorf("part is %s, want text/x-shellscript", ct)
		}
		data, err := io.ReadAll(base64.NewDecoder(base64.StdEncoding, part))
		if err != nil || string(data) != want {
			t.Errorf("part is %q (%v), want it byte for byte: %q", data, err, want)
		}
	}
	if _, err := r.NextPart(); !errors.Is(err, io.EOF) {
		t.Errorf("there is more than two parts: %v", err)
	}
}

// A seed that is written again for the same instance holds the same bytes.
func TestVendorData_multipartIsDeterministic(t *testing.T) {
	first, err := vendorData("#!/bin/sh\n")
	if err != nil {
		t.Fatal(err)
	}
	if second, err := vendorData("#!/bin/sh\n"); err != nil || second != first {
		t.Errorf("two calls differ (%v)", err)
	}
}

func TestVendorData_extraMustBeAScript(t *testing.T) {
	if _, err := vendorData("#cloud-config\npackages: [curl]\n"); !errors.Is(err, provider.ErrPermanent) {
		t.Errorf("error is %v, want ErrPermanent", err)
	}
}
