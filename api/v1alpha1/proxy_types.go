package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Proxy is a forward proxy on a VM of its own. Apply it, wait for the condition Ready, and send
// requests through status.endpoint: the Secret <name>-proxy holds the URLs with user and password.
// Ready means that a request really passed. Deleting it removes the VM and everything made for it.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=eproxy,categories=egress
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Endpoint",type=string,JSONPath=`.status.endpoint`
// +kubebuilder:printcolumn:name="Provider",type=string,JSONPath=`.spec.provider`
// +kubebuilder:printcolumn:name="Zone",type=string,JSONPath=`.spec.placement.zone`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Egress-IP",type=string,priority=10,JSONPath=`.status.egressIP`
// +kubebuilder:printcolumn:name="Provider-ID",type=string,priority=10,JSONPath=`.status.providerID`
type Proxy struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec says what proxy is wanted.
	// +required
	Spec ProxySpec `json:"spec"`
	// status says what was seen of it.
	// +optional
	Status ProxyStatus `json:"status,omitzero"`
}

// ProxyList is a list of Proxies.
//
// +kubebuilder:object:root=true
type ProxyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []Proxy `json:"items"`
}

// ProxySpec says what proxy is wanted. One of auth and allowedSources is required, so that nobody gets
// an open relay by accident; with both, both must hold.
//
// +kubebuilder:validation:XValidation:rule="has(self.auth) || has(self.allowedSources)",message="set auth, allowedSources or both: a proxy without either is an open relay"
// +kubebuilder:validation:XValidation:rule="has(self.auth) || !has(self.allowedSources) || self.allowedSources.all(s, !isCIDR(s) || cidr(s).prefixLength() > 0)",message="allowedSources must not hold 0.0.0.0/0 or ::/0 without auth: that is an open relay"
type ProxySpec struct {
	// provider is the name of a configured provider entry; `kubectl get providerhealth` lists them.
	// It cannot be changed: make another Proxy instead.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="provider cannot be changed: make another Proxy"
	Provider string `json:"provider"`

	// placement says where the VM runs and what it is made of. It cannot be changed.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="placement cannot be changed: make another Proxy"
	Placement Placement `json:"placement"`

	// port that the proxy listens on.
	// +optional
	// +default=3128
	// +kubebuilder:validation:Minimum=1024
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`

	// auth asks clients for a user name and a password.
	// +optional
	Auth *ProxyAuth `json:"auth,omitempty"`

	// allowedSources are the client networks that may use the proxy, as CIDRs. Empty means any, which
	// needs auth.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="self.all(s, isCIDR(s))",message="allowedSources must be CIDRs, for example 192.0.2.0/24"
	AllowedSources []string `json:"allowedSources,omitempty"`

	// allowedDestinations are domain names that the proxy may be asked for, each with its
	// subdomains. Empty means every public one.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	AllowedDestinations []string `json:"allowedDestinations,omitempty"`

	// allowedPrivateDestinations are networks, as CIDRs, that the proxy may reach although private,
	// shared and other special ranges are closed by default. Loopback, link-local, the proxy's own
	// addresses and its hypervisor stay closed whatever stands here.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="self.all(s, isCIDR(s))",message="allowedPrivateDestinations must be CIDRs, for example 192.168.7.0/24"
	AllowedPrivateDestinations []string `json:"allowedPrivateDestinations,omitempty"`

	// expectedEgressIP is the address that the other end must see. When set, the Proxy is Ready only
	// if it does.
	// +optional
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=39
	// +kubebuilder:validation:XValidation:rule="isIP(self)",message="expectedEgressIP must be an IP address"
	ExpectedEgressIP string `json:"expectedEgressIP,omitempty"`

	// sshAuthorizedKeys are public keys that may log in to the VM, as lines of authorized_keys.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=2048
	SSHAuthorizedKeys []string `json:"sshAuthorizedKeys,omitempty"`

	// cloudInit gives the VM a user-data of your own instead of ours. It must make the VM a forward
	// proxy on spec.port; what auth, allowedSources and the other fields say is then yours to keep, and
	// the check uses the credential of auth.
	// +optional
	CloudInit *CloudInit `json:"cloudInit,omitempty"`

	// replacement says what happens when the spec or a Secret's content changed in a way that only a new
	// VM can follow: Manual waits for the annotation egress.hrajfrisbee.cz/replace, Automatic
	// replaces the VM, one at a time per provider.
	// +optional
	// +default="Manual"
	Replacement Replacement `json:"replacement,omitempty"`
}

// Placement says where the VM runs and what it is made of, in the words of the provider's entry.
type Placement struct {
	// zone is where: for kvm2, the name of a host.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Zone string `json:"zone"`
	// machineType is how large: a key of the entry's machineTypes.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	MachineType string `json:"machineType"`
	// image is what it boots: a key of the entry's images.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Image string `json:"image"`
}

// ProxyAuth asks clients for a user name and a password.
type ProxyAuth struct {
	// secretRef names a Secret in the Proxy's namespace with the keys username and password (at most
	// 72 bytes). The VM gets a bcrypt hash, never the password.
	// +required
	SecretRef SecretReference `json:"secretRef"`
}

// CloudInit is the user's own user-data.
type CloudInit struct {
	// secretRef names a Secret in the Proxy's namespace with the key user-data.
	// +required
	SecretRef SecretReference `json:"secretRef"`
}

// SecretReference names a Secret in the same namespace.
type SecretReference struct {
	// name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// Replacement is what happens when only a new VM can follow a change.
//
// +kubebuilder:validation:Enum=Automatic;Manual
type Replacement string

// The ways to replace a VM.
const (
	ReplacementAutomatic Replacement = "Automatic"
	ReplacementManual    Replacement = "Manual"
)

// ProxyStatus says what was seen of the proxy.
type ProxyStatus struct {
	// conditions are Provisioned, AddressAssigned, Serving and, as their summary, Ready.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the metadata.generation that this status speaks of.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// providerID names the instance in the provider. It is written before the first create.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	ProviderID string `json:"providerID,omitempty"`

	// macAddress of the VM, known before it is made, so that a DHCP reservation can be too.
	// +optional
	// +kubebuilder:validation:MaxLength=17
	MACAddress string `json:"macAddress,omitempty"`

	// address of the VM.
	// +optional
	// +kubebuilder:validation:MaxLength=39
	Address string `json:"address,omitempty"`

	// endpoint of the proxy, address and port, without a credential.
	// +optional
	// +kubebuilder:validation:MaxLength=48
	Endpoint string `json:"endpoint,omitempty"`

	// egressIP is the address that the other end of the last check saw.
	// +optional
	// +kubebuilder:validation:MaxLength=39
	EgressIP string `json:"egressIP,omitempty"`

	// provisionedAt is when the VM was made, as the provider wrote it down.
	// +optional
	ProvisionedAt *metav1.Time `json:"provisionedAt,omitempty"`

	// replacements counts how often the VM was replaced by one of other inputs. Each has another ID and
	// MAC address.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Replacements int64 `json:"replacements,omitempty"`

	// inputsHash is the hash of what the VM was made from; another one means that it wants replacing.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	InputsHash string `json:"inputsHash,omitempty"`
}
