package egressctl

import (
	"context"
	"strings"

	"golang.org/x/crypto/bcrypt"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl/state"
)

// passwordVariable is read where no flag says where the password is.
const passwordVariable = "EGRESSCTL_PASSWORD" //nolint:gosec // a name, not a password

// password is what a run says of the user's password.
type password struct {
	text string
	// generate asks for one to be made.
	generate bool
}

// given says whether this run says anything of it.
func (p password) given() bool { return p.generate || p.text != "" }

// password reads it from where the flags or the environment have it.
func (f *proxyFlags) password(ctx context.Context, r *runner) (password, error) {
	switch {
	case f.generatePassword:
		return password{generate: true}, nil
	case f.passwordFile != "":
		data, err := readFile(ctx, f.passwordFile, r.In)
		if err != nil {
			return password{}, fail(CodeUsage, "--password-file: %w", err)
		}
		line, _, _ := strings.Cut(string(data), "\n")
		if line = strings.TrimSuffix(line, "\r"); line == "" {
			return password{}, fail(CodeUsage, "--password-file: the first line is empty")
		}
		return password{text: line}, nil
	}
	return password{text: r.Getenv(passwordVariable)}, nil
}

// differs says whether rec was made with another password.
func (p password) differs(rec *state.Record) bool {
	switch {
	case rec.PasswordHash == "":
		return p.given()
	case p.generate:
		return rec.Password == ""
	case p.text != "":
		return bcrypt.CompareHashAndPassword([]byte(rec.PasswordHash), []byte(p.text)) != nil
	}
	return false
}
