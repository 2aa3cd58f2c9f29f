package egressctl

import (
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl/output"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl/state"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// stateRecorded is shown for an instance that is recorded here but that the host does not list: a
// create that did not come far, or one that someone else removed.
const stateRecorded = "Recorded"

// view is an instance as results show it. The field names are part of the interface.
type view struct {
	Name         string     `json:"name"`
	Entry        string     `json:"entry"`
	Zone         string     `json:"zone"`
	MachineType  string     `json:"machineType,omitempty"`
	Image        string     `json:"image,omitempty"`
	ID           string     `json:"id"`
	InstanceName string     `json:"instanceName,omitempty"`
	UID          string     `json:"uid"`
	State        string     `json:"state"`
	Address      string     `json:"address"`
	Addresses    []string   `json:"addresses"`
	MACs         []string   `json:"macs"`
	CreatedAt    *time.Time `json:"createdAt,omitempty"`
	Port         int        `json:"port,omitempty"`
	AuthUser     string     `json:"authUser,omitempty"`
	// ProxyURL has the user name, and the password only where it was asked for.
	ProxyURL string `json:"proxyURL,omitempty"`
	// Guest is what the guest says of its cloud-init; get asks for it.
	Guest *provider.GuestReport `json:"guest,omitempty"`
	// Serving, Verified and EgressIP are set by a create that waited.
	Serving  bool   `json:"serving,omitempty"`
	Verified bool   `json:"verified,omitempty"`
	EgressIP string `json:"egressIP,omitempty"`
}

// viewOf joins what the provider and the record know. rec may be nil.
func viewOf(entry string, inst provider.Instance, rec *state.Record) view {
	v := view{
		Name: nameOf(inst), Entry: entry, Zone: inst.Zone, ID: inst.ID, InstanceName: inst.Name, UID: inst.UID,
		State: string(inst.State), Addresses: inst.Addresses, MACs: inst.MACs,
	}
	if len(inst.Addresses) > 0 {
		v.Address = inst.Addresses[0]
	}
	if !inst.CreatedAt.IsZero() {
		v.CreatedAt = &inst.CreatedAt
	}
	if rec != nil {
		v.addRecord(rec)
	}
	if inst.Port != 0 {
		v.Port = inst.Port
		if v.ProxyURL != "" {
			v.ProxyURL = v.proxyURL("")
		}
	}
	return v
}

// recordedView shows an instance of which only the record is known.
func recordedView(rec *state.Record) view {
	v := view{UID: rec.UID, InstanceName: rec.InstanceName, ID: rec.ID, State: stateRecorded}
	v.addRecord(rec)
	return v
}

func (v *view) addRecord(rec *state.Record) {
	in := rec.Inputs
	v.Name, v.Entry, v.Zone = rec.Name, rec.Entry, in.Placement.Zone
	v.MachineType, v.Image = in.Placement.MachineType, in.Placement.Image
	v.Port, v.AuthUser = in.Port, in.AuthUser
	if v.Address != "" {
		v.ProxyURL = v.proxyURL("")
	}
}

// proxyURL gives the URL for a client, with the password where there is one.
func (v *view) proxyURL(password string) string {
	u := url.URL{Scheme: "http", Host: net.JoinHostPort(v.Address, strconv.Itoa(v.Port))}
	switch {
	case password != "":
		u.User = url.UserPassword(v.AuthUser, password)
	case v.AuthUser != "":
		u.User = url.User(v.AuthUser)
	}
	return u.String()
}

// refPrefix marks what egressctl asked for, in an instance's ref.
const refPrefix = "egressctl/"

// nameOf gives the name under which the user knows an instance.
func nameOf(inst provider.Instance) string {
	if name, ok := strings.CutPrefix(inst.Ref, refPrefix); ok {
		return name
	}
	return inst.Name
}

// fields is the view for people.
func (v *view) fields() [][2]string {
	created := ""
	if v.CreatedAt != nil {
		created = v.CreatedAt.UTC().Format(time.RFC3339)
	}
	guestSays := ""
	if v.Guest != nil {
		guestSays = v.Guest.Message
	}
	return [][2]string{
		{"Name", v.Name},
		{"State", v.State},
		{"Entry", v.Entry},
		{"Zone", v.Zone},
		{"Machine type", v.MachineType},
		{"Image", v.Image},
		{"ID", v.ID},
		{"MAC", strings.Join(v.MACs, ", ")},
		{"Created", created},
		{"Address", strings.Join(v.Addresses, ", ")},
		{"Proxy URL", v.ProxyURL},
		{"Egress IP", v.EgressIP},
		{"Guest", guestSays},
	}
}

// printView prints one instance.
func (r *runner) printView(v *view) error {
	if r.format.Structured() {
		return local(output.Structure(r.Out, r.format, v))
	}
	return local(output.Fields(r.Out, v.fields()))
}
