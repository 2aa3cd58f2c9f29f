package kvm2

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"mime/multipart"
	"net/textproto"
	"strings"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// agentScript installs the guest agent where it is missing, and starts it.
//
//go:embed guest-agent.sh
var agentScript string

// vendorData gives the cloud-init part that is ours. It is a shell script: cloud-config would be merged
// with the user's, and could lose. With an extra script it is multipart, ours first.
func vendorData(extra string) (string, error) {
	if strings.TrimSpace(extra) == "" {
		return agentScript, nil
	}
	if !strings.HasPrefix(extra, "#!") {
		return "", provider.Errorf(provider.ErrPermanent, provider.ReasonInvalidRequest,
			"extraVendorData is not a shell script: its first line must name an interpreter, for example #!/bin/sh")
	}
	return multipartScripts([]namedScript{{"10-guest-agent.sh", agentScript}, {"20-extra.sh", extra}})
}

// namedScript is a script and its file name; cloud-init runs scripts in the order of their names.
type namedScript struct{ name, content string }

// multipartScripts is deterministic, so that the seed of one instance is the same in every attempt. The
// parts are base64, so that no line ending or byte of a script is touched on the way.
func multipartScripts(scripts []namedScript) (string, error) {
	hash := sha256.New()
	for _, s := range scripts {
		hash.Write([]byte(s.content))
	}
	boundary := "kvm2-" + hex.EncodeToString(hash.Sum(nil))[:32]

	var out strings.Builder
	out.WriteString("Content-Type: multipart/mixed; boundary=\"" + boundary + "\"\r\nMIME-Version: 1.0\r\n\r\n")
	w := multipart.NewWriter(&out)
	if err := w.SetBoundary(boundary); err != nil {
		return "", provider.Errorf(provider.ErrPermanent, provider.ReasonInvalidRequest, "write the vendor-data: %w", err)
	}
	for _, s := range scripts {
		part, err := w.CreatePart(textproto.MIMEHeader{
			"Content-Type":              {"text/x-shellscript; charset=utf-8"},
			"Content-Transfer-Encoding": {"base64"},
			"Content-Disposition":       {`attachment; filename="` + s.name + `"`},
		})
		if err == nil {
			_, err = part.Write([]byte(base64Lines(s.content)))
		}
		if err != nil {
			return "", provider.Errorf(provider.ErrPermanent, provider.ReasonInvalidRequest, "write the vendor-data: %w", err)
		}
	}
	if err := w.Close(); err != nil {
		return "", provider.Errorf(provider.ErrPermanent, provider.ReasonInvalidRequest, "write the vendor-data: %w", err)
	}
	return out.String(), nil
}

// base64Lines encodes in lines of 76, the longest that RFC 2045 allows.
func base64Lines(content string) string {
	const width = 76
	text := base64.StdEncoding.EncodeToString([]byte(content))
	var out strings.Builder
	for len(text) > width {
		out.WriteString(text[:width] + "\r\n")
		text = text[width:]
	}
	out.WriteString(text)
	return out.String()
}
