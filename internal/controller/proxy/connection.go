package proxy

import (
	"bytes"
	"context"
	"maps"
	"net/url"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/api/v1alpha1"
)

// noProxy keeps what a workload in a cluster must reach directly away from the proxy: itself, Services,
// and the private ranges, which the proxy refuses anyway.
const noProxy = "localhost,127.0.0.1,::1,.svc,.cluster.local,kubernetes.default," +
	"10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,100.64.0.0/10,169.254.0.0/16,fc00::/7,fe80::/10"

// connectionName is the name of the Secret that holds a Proxy's URLs, for envFrom.
func connectionName(p *v1alpha1.Proxy) string { return p.Name + "-proxy" }

// connectionData is what a client's environment needs. User name and password are percent-encoded.
func connectionData(endpoint, user, password string) map[string][]byte {
	u := url.URL{Scheme: "http", Host: endpoint}
	if user != "" {
		u.User = url.UserPassword(user, password)
	}
	target := []byte(u.String())
	return map[string][]byte{
		"http_proxy": target, "HTTP_PROXY": target,
		"https_proxy": target, "HTTPS_PROXY": target,
		"no_proxy": []byte(noProxy), "NO_PROXY": []byte(noProxy),
	}
}

// connect keeps the connection Secret true once there is an endpoint.
func (r *Reconciler) connect(ctx context.Context, s *pass) (reconcile.Result, error) {
	if s.proxy.Status.Endpoint == "" {
		return reconcile.Result{}, nil
	}
	secret, err := r.ownedSecret(ctx, s.proxy, connectionName(s.proxy))
	if err != nil {
		return reconcile.Result{}, err
	}
	want := connectionData(s.proxy.Status.Endpoint, s.inputs.user, s.inputs.password)
	if maps.EqualFunc(secret.Data, want, bytes.Equal) {
		return reconcile.Result{}, nil
	}
	secret.Data = want
	return reconcile.Result{}, r.writeSecret(ctx, secret)
}
