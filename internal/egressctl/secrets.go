package egressctl

import (
	"fmt"
	"regexp"
	"strings"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl/state"
)

// bcryptHash matches every hash that may stand in a document.
var bcryptHash = regexp.MustCompile(`\$2[abxy]?\$\d\d\$[./A-Za-z0-9]{53}`)

// hideSecrets takes the hashes out of a document, and all of a user's own user-data: nobody can tell
// what of it is secret.
func hideSecrets(content string, rec *state.Record) string {
	if rec.Inputs.UserDataSHA256 != "" {
		content = strings.ReplaceAll(content, string(rec.UserData),
			fmt.Sprintf("[%d bytes of your own, hidden without --show-secrets]", len(rec.UserData)))
	}
	return bcryptHash.ReplaceAllString(content, "[hidden without --show-secrets]")
}
