package proxy

import (
	"strconv"

	"github.com/google/uuid"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/api/v1alpha1"
)

// instanceUID identifies the present instance of a Proxy. The first one has the Proxy's own UID; each
// replacement has another one, since the name and the ID that follow from it are never reused.
func instanceUID(p *v1alpha1.Proxy) string {
	if p.Status.Replacements == 0 {
		return string(p.UID)
	}
	base, err := uuid.Parse(string(p.UID))
	if err != nil {
		base = uuid.NewSHA1(uuid.NameSpaceOID, []byte(p.UID))
	}
	return uuid.NewSHA1(base, []byte(strconv.FormatInt(p.Status.Replacements, 10))).String()
}
