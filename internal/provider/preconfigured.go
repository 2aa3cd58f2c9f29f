package provider

// Preconfigured is optional: what a Create gives is a forward proxy already, which somebody else has set up. The
// user-data of a request is not applied to it, so a caller must not rely on anything that stands there: not on its
// own credential, nor on who may use the proxy and for what (R12.10). The port is Instance.Port.
type Preconfigured interface {
	// Preconfigured does nothing: to have it is what tells.
	Preconfigured()
}
