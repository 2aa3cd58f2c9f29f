package provider

// TypeKVM2 is the type of a libvirt/KVM entry. TypeKVM is the older provider's, known only so that a
// user who still has such an entry is told how to port it.
const (
	TypeKVM2 = "kvm2"
	TypeKVM  = "kvm"
)

// CheckURLNone as the check URL says explicitly that no request is made through a new proxy.
const CheckURLNone = "none"

// Config is the providers file.
type Config struct {
	// CheckURL is fetched through each proxy before it counts as ready, or CheckURLNone.
	CheckURL string `json:"checkURL"`
	// Providers in the file's order.
	Providers []Entry `json:"providers"`
}

// Entry is one configured provider: a name, a type, and the one block of that type.
type Entry struct {
	Name string     `json:"name"`
	Type string     `json:"type"`
	KVM  *KVMConfig `json:"kvm,omitempty"`
	KVM2 *KVMConfig `json:"kvm2,omitempty"`
}
