package v1alpha1

// Condition types of a Proxy.
const (
	// ConditionProvisioned is true when the provider says that the VM exists and runs.
	ConditionProvisioned = "Provisioned"
	// ConditionAddressAssigned is true when the VM has an address.
	ConditionAddressAssigned = "AddressAssigned"
	// ConditionServing is true when the proxy accepted our credential.
	ConditionServing = "Serving"
	// ConditionReady is true when a request to the check URL passed, from the expected address if one
	// is set. It is the summary: when it is not true, its reason is that of the first step that is not.
	ConditionReady = "Ready"
)

// Reasons of a Proxy's conditions, beside those of the provider's errors (docs/provider-contract.md).
const (
	// ReasonRunning: true when the VM exists and runs.
	ReasonRunning = "Running"
	// ReasonCreating: true while the provider makes the VM.
	ReasonCreating = "Creating"
	// ReasonBooting: true while the VM runs without an address.
	ReasonBooting = "Booting"
	// ReasonStopped: true when the VM exists and does not run; it is started again.
	ReasonStopped = "Stopped"
	// ReasonVanished: true when a VM that was there is gone; it is made anew.
	ReasonVanished = "Vanished"
	// ReasonDeleting: true while the VM is being removed.
	ReasonDeleting = "Deleting"
	// ReasonPaused: true while the annotation egress.hrajfrisbee.cz/paused holds everything still.
	ReasonPaused = "Paused"
	// ReasonAddressAssigned: true when the VM has an address.
	ReasonAddressAssigned = "AddressAssigned"
	// ReasonWaitingForVM: true while an earlier step is not done.
	ReasonWaitingForVM = "WaitingForVM"
	// ReasonAccepted: true when the proxy accepted our credential.
	ReasonAccepted = "Accepted"
	// ReasonRequestPassed: true when a request to the check URL passed.
	ReasonRequestPassed = "RequestPassed"
	// ReasonNotVerified: true when there is no check URL, so that Ready only follows Serving.
	ReasonNotVerified = "NotVerified"
	// ReasonUnexpectedEgressIP: true when the other end saw another address than the expected one.
	ReasonUnexpectedEgressIP = "UnexpectedEgressIP"
	// ReasonSecretNotFound: true when a referenced Secret is missing.
	ReasonSecretNotFound = "SecretNotFound"
	// ReasonSecretInvalid: true when a referenced Secret lacks a key or holds what cannot be used.
	ReasonSecretInvalid = "SecretInvalid"
	// ReasonSecretConflict: true when a Secret of a name that the Proxy needs belongs to somebody else.
	ReasonSecretConflict = "SecretConflict"
	// ReasonInvalidSpec: true when the spec asks for what no proxy can be made from.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonProviderNotConfigured: true when no usable entry has the Proxy's provider name.
	ReasonProviderNotConfigured = "ProviderNotConfigured"
	// ReasonReplacementNeeded: true when the VM was made from other inputs than the present ones.
	ReasonReplacementNeeded = "ReplacementNeeded"
)

// Names on objects.
const (
	// Finalizer keeps a Proxy until the provider says that its VM is gone.
	Finalizer = "egress.hrajfrisbee.cz/instance"
	// AnnotationPaused, with any value, makes the operator leave the Proxy and its VM alone.
	AnnotationPaused = "egress.hrajfrisbee.cz/paused"
	// AnnotationReplace asks for the replacement that spec.replacement Manual waits for: its value is
	// the metadata.generation to follow, or "now".
	AnnotationReplace = "egress.hrajfrisbee.cz/replace"
	// AnnotationAbandon with the value of status.providerID gives a VM up that cannot be reached any
	// more: the Proxy goes, the VM may stay.
	AnnotationAbandon = "egress.hrajfrisbee.cz/abandon"
)
