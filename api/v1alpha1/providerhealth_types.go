package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ProviderHealth is the health of one configured provider entry. The operator makes one for each, of
// the entry's name, and keeps it true. There is nothing to apply.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=ph,categories=egress
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.status.type`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Last check",type=date,JSONPath=`.status.lastCheckTime`
// +kubebuilder:printcolumn:name="Message",type=string,priority=10,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type ProviderHealth struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// status says what the last check saw.
	// +optional
	Status ProviderHealthStatus `json:"status,omitzero"`
}

// ProviderHealthList is a list of ProviderHealths.
//
// +kubebuilder:object:root=true
type ProviderHealthList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []ProviderHealth `json:"items"`
}

// ProviderHealthStatus says what the last check saw.
type ProviderHealthStatus struct {
	// conditions hold Ready: every host of the entry can be used; and ConfigCurrent: the providers file
	// as it is now is what is in use.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// type of the entry: kvm2 (libvirt/KVM hosts over SSH), or kvm (an older type that this operator
	// only tells how to port).
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Type string `json:"type,omitempty"`

	// configHash tells one configuration of the entry from another: it changes when the operator has
	// taken a change of the providers file over. Empty for an entry that cannot be used.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ConfigHash string `json:"configHash,omitempty"`

	// hosts of the entry, in the configuration's order.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	Hosts []HostHealth `json:"hosts,omitempty"`

	// lastCheckTime is when the hosts were checked last, as of the last write: the object is written
	// when something changed, and every ten minutes.
	// +optional
	LastCheckTime *metav1.Time `json:"lastCheckTime,omitempty"`
}

// HostHealth is the health of one host.
type HostHealth struct {
	// name of the host, which is its zone.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// ready says whether it can be used.
	// +required
	Ready bool `json:"ready"`
	// reason in CamelCase.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Reason string `json:"reason"`
	// message says what is wrong and what to do.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// details are facts about the host.
	// +optional
	// +listType=map
	// +listMapKey=key
	// +kubebuilder:validation:MaxItems=32
	Details []HostDetail `json:"details,omitempty"`
	// latencyMilliseconds is how long the check of this host took.
	// +optional
	// +kubebuilder:validation:Minimum=0
	LatencyMilliseconds int64 `json:"latencyMilliseconds,omitempty"`
}

// HostDetail is one fact about a host.
type HostDetail struct {
	// key names the fact.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Key string `json:"key"`
	// value of the fact.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Value string `json:"value,omitempty"`
}

// ConditionProviderReady is the condition Ready of a ProviderHealth.
const ConditionProviderReady = "Ready"

// ConditionConfigCurrent says that the providers file as it is now is what is in use.
const ConditionConfigCurrent = "ConfigCurrent"

// Reasons of a ProviderHealth's conditions.
const (
	// ReasonHealthy: true when every host can be used.
	ReasonHealthy = "Healthy"
	// ReasonHostsNotReady: true when some host cannot; the message names the first.
	ReasonHostsNotReady = "HostsNotReady"
	// ReasonConfigInvalid: true when the entry in the providers file cannot be used.
	ReasonConfigInvalid = "ConfigInvalid"
	// ReasonNotChecked: true when the provider has no health check.
	ReasonNotChecked = "NotChecked"
	// ReasonFileApplied: true when the providers file is in use as it is.
	ReasonFileApplied = "FileApplied"
	// ReasonFileInvalid: true when the providers file cannot be read or used; the entries stay as they were.
	ReasonFileInvalid = "FileInvalid"
)
