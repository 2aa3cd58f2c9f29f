package provider_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

const sentinel = "s3ntinel"

// leaks reports whether out has the secret in a form that somebody could read back.
func leaks(out string) bool {
	raw := []byte(sentinel)
	numbers := fmt.Sprintf("%d", raw)
	quoted, _ := json.Marshal(raw) // base64, cannot fail
	for _, form := range []string{
		sentinel, hex.EncodeToString(raw), fmt.Sprintf("%X", raw), fmt.Sprintf("% x", raw),
		numbers, strings.Trim(numbers, "[]"), fmt.Sprintf("%#v", raw), strings.Trim(string(quoted), `"`),
		"0x73", "115",
	} {
		if strings.Contains(out, form) {
			return true
		}
	}
	return false
}

func TestSecret_everyVerbTellsOnlyTheLength(t *testing.T) {
	secret := provider.Secret(sentinel)
	holders := map[string]any{
		"value":   secret,
		"pointer": &secret,
		"struct":  provider.CreateRequest{CloudInit: secret},
		"nested":  []any{map[string]any{"k": &provider.CreateRequest{CloudInit: secret}}},
		"slice":   []provider.Secret{secret},
		"wrapper": struct{ Request provider.CreateRequest }{provider.CreateRequest{CloudInit: secret}},
	}
	for name, holder := range holders {
		// Not %p and %w: go vet refuses them for what is no pointer and no error.
		for _, verb := range "vsqxXdbotTcUeEfFgG" {
			for _, flags := range []string{"", "+", "#", " ", "-20", "020", ".3"} {
				format := "%" + flags + string(verb)
				if out := fmt.Sprintf(format, holder); leaks(out) {
					t.Errorf("%s printed with %s must not tell the secret, is %s", name, format, out)
				}
			}
		}
	}
	if got, want := fmt.Sprintf("%s", secret), "[secret, 8 bytes]"; got != want {
		t.Errorf("the length may be told: want %s, got %s", want, got)
	}
}

func TestSecret_everyEncoderTellsOnlyTheLength(t *testing.T) {
	req := provider.CreateRequest{Name: "n", CloudInit: provider.Secret(sentinel)}
	logged := func(log func(*bytes.Buffer)) func() (string, error) {
		return func() (string, error) {
			var buf bytes.Buffer
			log(&buf)
			return buf.String(), nil
		}
	}
	slogged := func(h slog.Handler) {
		slog.New(h).Info("m", "secret", req.CloudInit, "request", req, "pointer", &req)
	}
	logrd := func(log logr.Logger) {
		log.Info("m", "secret", req.CloudInit, "request", req, "pointer", &req)
		log.Error(errors.New("e"), "m", "secret", req.CloudInit)
	}
	text := func(b []byte, err error) (string, error) { return string(b), err }
	encoders := map[string]func() (string, error){
		"json":      func() (string, error) { return text(json.Marshal(req)) },
		"yaml":      func() (string, error) { return text(yaml.Marshal(req)) },
		"yaml.v3":   func() (string, error) { return text(yamlv3.Marshal(req)) },
		"xml":       func() (string, error) { return text(xml.Marshal(req)) },
		"text":      func() (string, error) { return text(req.CloudInit.MarshalText()) },
		"slog text": logged(func(b *bytes.Buffer) { slogged(slog.NewTextHandler(b, nil)) }),
		"slog json": logged(func(b *bytes.Buffer) { slogged(slog.NewJSONHandler(b, nil)) }),
		"funcr": logged(func(b *bytes.Buffer) {
			logrd(funcr.New(func(p, a string) { b.WriteString(p + a) }, funcr.Options{}))
		}),
		"funcr json": logged(func(b *bytes.Buffer) {
			logrd(funcr.NewJSON(func(o string) { b.WriteString(o) }, funcr.Options{}))
		}),
		"logr over slog": logged(func(b *bytes.Buffer) { logrd(logr.FromSlogHandler(slog.NewTextHandler(b, nil))) }),
		"error":          func() (string, error) { return fmt.Errorf("create %v: %w", req, context.Canceled).Error(), nil },
	}
	for name, encode := range encoders {
		t.Run(name, func(t *testing.T) {
			out, err := encode()
			if err != nil {
				t.Fatalf("encoding must work: %v", err)
			}
			if leaks(out) {
				t.Errorf("must not tell the secret, is %s", out)
			}
			if !strings.Contains(out, "[secret, 8 bytes]") {
				t.Errorf("must tell the length, is %s", out)
			}
		})
	}
}
