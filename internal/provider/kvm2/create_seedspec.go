package kvm2

import "gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"

// seedSpec says what goes into the seed of a request. It is the one place that takes the user-data out
// of the request.
func (p *Provider) seedSpec(req provider.CreateRequest) seedSpec {
	return seedSpec{
		UID: req.UID, Hostname: req.Name,
		UserData: req.CloudInit, ExtraVendorData: p.config.ExtraVendorData,
	}
}
