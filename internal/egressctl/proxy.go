package egressctl

import (
	"context"
	"net"
	"strconv"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/egressctl/state"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/probe"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// Prober makes one request through a proxy: probe.Request.
type Prober func(context.Context, probe.Options) (probe.Result, error)

// tryProxy makes one request through the instance, and notes in v what it showed. It gives what is
// missing still, "" when the request passed.
func (r *runner) tryProxy(ctx context.Context, v *view, rec *state.Record) string {
	options := probeOptions(v, rec)
	result, err := r.Probe(ctx, options)
	if err != nil {
		r.log.V(1).Info("the proxy does not serve yet", "entry", rec.Entry, "name", rec.Name,
			"endpoint", options.Endpoint, "reason", probe.ReasonOf(err), "error", err.Error())
		return inFlags.Replace(err.Error())
	}
	v.Serving, v.Verified = true, options.CheckURL != provider.CheckURLNone
	if result.EgressIP.IsValid() {
		v.EgressIP = result.EgressIP.String()
	}
	return ""
}

// probeOptions say what to ask. Of a proxy that the user's own user-data makes no credential is known:
// any answer of it counts.
func probeOptions(v *view, rec *state.Record) probe.Options {
	options := probe.Options{
		Endpoint: net.JoinHostPort(v.Address, strconv.Itoa(v.Port)),
		User:     rec.ProbeUser, Password: rec.ProbePassword, CheckURL: rec.CheckURL,
	}
	if rec.Inputs.UserDataSHA256 != "" {
		options.CheckURL = provider.CheckURLNone
	}
	return options
}
