package provider

import "time"

// CreateRequest says what instance is wanted.
type CreateRequest struct {
	// Name of the instance in the backend, see InstanceName. A DNS label of at most 63 bytes.
	Name string
	// UID identifies the instance for ever: an RFC 9562 UUID in its canonical lower-case text form.
	UID string
	// Owner is the identity of the installation that asks. It equals the provider's own
	// (Options.Owner): a request of another owner is refused.
	Owner string
	// Ref names what asked for the instance, as "namespace/name". It is written with the mark.
	Ref string
	// Placement says where and what.
	Placement Placement
	// CloudInit is the user-data for the guest, byte for byte. It is a secret.
	CloudInit Secret
}

// Placement chooses among what the entry's configuration names.
type Placement struct {
	Zone        string `json:"zone"`
	MachineType string `json:"machineType"`
	Image       string `json:"image"`
}

// State of an instance. The zero value is no state.
type State string

// The states of an instance.
const (
	// StateProvisioning: it exists, and is not yet running with an address.
	StateProvisioning State = "Provisioning"
	// StateRunning: it runs and has an address.
	StateRunning State = "Running"
	// StateStopped: it exists and does not run. Create starts it again.
	StateStopped State = "Stopped"
)

// Instance is what the backend says of one instance.
type Instance struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// UID, Owner and Ref as the mark has them. UID is empty for a half-made instance.
	UID   string `json:"uid"`
	Owner string `json:"owner"`
	Ref   string `json:"ref"`
	State State  `json:"state"`
	// Addresses are IPv4 addresses as text, the one to use first. Empty unless known.
	Addresses []string `json:"addresses"`
	// Port on which the proxy listens, where the instance is Preconfigured and its address is known. 0 where it is the one that the user-data says.
	Port int `json:"port,omitempty"`
	// MACs are the hardware addresses of the instance's interfaces, lower case, with colons.
	MACs []string `json:"macs"`
	// CreatedAt as written at creation, UTC. Zero when the mark does not say.
	CreatedAt time.Time `json:"createdAt"`
	Zone      string    `json:"zone"`
}

// HostCheck is the health of one host of an entry.
type HostCheck struct {
	Host  string `json:"host"`
	Ready bool   `json:"ready"`
	// Reason is CamelCase: ReasonReady, or why not.
	Reason string `json:"reason"`
	// Message is one sentence that says what to do.
	Message string `json:"message"`
	// Details are ordered, keys without repetition.
	Details []Detail `json:"details"`
	// Latency of the whole check of this host.
	Latency time.Duration `json:"latency"`
}

// Detail is one fact of a HostCheck.
type Detail struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}
