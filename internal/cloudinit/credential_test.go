package cloudinit_test

import (
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/cloudinit"
)

func TestHashPassword(t *testing.T) {
	for name, tc := range map[string]struct {
		password string
		wantErr  string
	}{
		"OneByte":    {"x", ""},
		"Longest":    {strings.Repeat("x", 72), ""},
		"NotASCII":   {"密码", ""},
		"Empty":      {"", "empty"},
		"TooLong":    {strings.Repeat("x", 73), "73 bytes"},
		"TooManyUTF": {strings.Repeat("密", 25), "75 bytes"},
		"NewlineEnd": {"secret\n", "line break"},
		"NUL":        {"sec\x00ret", "control character"},
	} {
		t.Run(name, func(t *testing.T) {
			hash, err := cloudinit.HashPassword(tc.password)
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Fatalf("got %v, want an error with %q", err, tc.wantErr)
				}
				if tc.password != "" && strings.Contains(err.Error(), tc.password) {
					t.Errorf("%q holds the password", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := bcrypt.CompareHashAndPassword([]byte(hash), []byte(tc.password)); err != nil {
				t.Errorf("the hash does not fit the password: %v", err)
			}
		})
	}
}

func TestGenerateCredential(t *testing.T) {
	seen := map[string]bool{}
	for range 10 {
		user, password, err := cloudinit.GenerateCredential()
		if err != nil {
			t.Fatal(err)
		}
		if seen[user] || seen[password] {
			t.Fatalf("%q came twice", user)
		}
		seen[user], seen[password] = true, true
		if len(password) < 26 {
			t.Errorf("the password has %d letters of 5 bits, want 128 bits at least", len(password))
		}
		spec := whole()
		spec.Probe.User = user
		if _, err := cloudinit.Render(spec); err != nil {
			t.Errorf("Render refuses the user name: %v", err)
		}
	}
}
