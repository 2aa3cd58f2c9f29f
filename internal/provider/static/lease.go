package static

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/google/uuid"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// lease is the content of a lease's file. It never changes, but for a mark without UID that gets one.
type lease struct {
	// Token is random: it tells one lease of an endpoint or a name from the next.
	Token string `json:"lease"`
	Zone  string `json:"zone"`
	// Name of the instance.
	Name string `json:"name"`
	// Endpoint is what the entry called the endpoint at that time.
	Endpoint string `json:"endpoint"`
	Address  string `json:"address"`
	Port     int    `json:"port"`
	// Mark stands under the provider's type (R3.2.5). nil: somebody else's file.
	Mark *mark `json:"static,omitempty"`
}

// mark is that of the contract's section 3.2.
type mark struct {
	Managed   bool      `json:"managed"`
	Owner     string    `json:"owner"`
	UID       string    `json:"uid,omitempty"`
	Ref       string    `json:"ref"`
	CreatedAt time.Time `json:"createdAt"`
}

// newLease leases an endpoint for a request.
func newLease(at place, e provider.StaticEndpoint, req provider.CreateRequest, now time.Time) lease {
	return lease{
		Token: uuid.NewString(), Zone: at.zone, Name: at.name, Endpoint: e.Name, Address: e.Address, Port: e.Port,
		Mark: &mark{Managed: true, Owner: req.Owner, UID: req.UID, Ref: req.Ref, CreatedAt: now.UTC().Truncate(time.Second)},
	}
}

// claimFile is the file of an endpoint's lease. It follows from what is leased, whatever an entry calls it.
func claimFile(address string, port int) string {
	return fmt.Sprintf("%s/%s_%d.json", folderEndpoints, strings.ReplaceAll(address, "/", "_"), port)
}

func (l lease) place() place { return place{zone: l.Zone, name: l.Name} }

// addresses is the one that clients use, or none where somebody edited it into one that leads nowhere (R2.3.16).
func (l lease) addresses() []string {
	ip, err := netip.ParseAddr(l.Address)
	if err != nil || !ip.Is4() || ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip.IsUnspecified() {
		return nil
	}
	return []string{ip.String()}
}

// encode gives the content of a lease's file.
func (l lease) encode() ([]byte, error) {
	content, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write a lease: %w", err)
	}
	return append(content, '\n'), nil
}

// record is a lease with the file that holds it.
type record struct {
	lease
	file    string
	content []byte
}

// decode reads a lease's file. errUnreadable says that it is none.
func decode(file string, content []byte) (*record, error) {
	r := &record{file: file, content: content}
	if err := json.Unmarshal(content, &r.lease); err != nil {
		return nil, fmt.Errorf("%s %w: %w", file, errUnreadable, err)
	}
	if r.Mark != nil && !r.Mark.Managed {
		r.Mark = nil
	}
	return r, nil
}

// ours reports whether a record carries the owner's mark.
func (r *record) ours(owner string) bool { return r.Mark != nil && r.Mark.Owner == owner }
