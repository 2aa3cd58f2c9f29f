//go:build integration

package proxy_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/api/v1alpha1"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/controller/proxy"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/probe"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/test/controlplane"
)

const (
	checkURL = "http://origin.example.net/"
	owner    = "3b0c1d52-5bd0-4f0e-9d4d-0d8f3a5f7a10"
)

var (
	admin   client.Client // an administrator
	entries = &testEntries{providers: map[string]provider.Provider{}, checkURL: checkURL}
	probes  = &testProbes{answers: map[string]probeAnswer{}}
)

// TestMain runs the controller for all tests: on a real API server, as the operator's own
// ServiceAccount with the role of config/rbac, so that a missing permission fails a test.
func TestMain(m *testing.M) {
	ctx, cancel := context.WithCancel(context.Background())
	ctrl.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	plane, err := controlplane.Start(ctx, controlplane.Options{})
	code := 1
	if err == nil {
		var stopped <-chan error
		if stopped, err = start(ctx, plane); err == nil {
			code = m.Run()
			cancel()
			err = <-stopped
		}
		if stopErr := plane.Stop(); err == nil {
			err = stopErr
		}
	}
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func start(ctx context.Context, plane *controlplane.ControlPlane) (<-chan error, error) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, err
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	plane.Config.QPS = -1 // tests poll; the operator's own client has its own limit
	var err error
	if admin, err = client.New(plane.Config, client.Options{Scheme: scheme}); err != nil {
		return nil, err
	}
	token, err := operatorToken(ctx)
	if err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(plane.ConfigFor(token), ctrl.Options{
		Scheme:  scheme,
		Metrics: metricsserver.Options{BindAddress: "0"},
		Client:  client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
	})
	if err != nil {
		return nil, err
	}
	r := proxy.New(ctx, proxy.Config{
		Client: mgr.GetClient(), Secrets: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorder("egress-proxies-operator"),
		Providers: entries, Probe: probes.request, Owner: owner,
		Steady: 300 * time.Millisecond, Mend: 300 * time.Millisecond,
	})
	if err := r.SetupWithManager(mgr); err != nil {
		return nil, err
	}
	stopped := make(chan error, 1)
	go func() { stopped <- mgr.Start(ctx) }()
	return stopped, nil
}

// operatorToken applies config/rbac and logs in as the ServiceAccount in it.
func operatorToken(ctx context.Context) (string, error) {
	if err := admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "egress-system"}}); err != nil {
		return "", err
	}
	for _, file := range []string{"service_account", "role", "role_binding"} {
		data, err := os.ReadFile("../../../config/rbac/" + file + ".yaml")
		if err != nil {
			return "", err
		}
		for doc := range strings.SplitSeq(string(data), "\n---\n") {
			var object unstructured.Unstructured
			if err := yaml.Unmarshal([]byte(doc), &object.Object); err != nil {
				return "", err
			}
			if err := admin.Create(ctx, &object); err != nil {
				return "", err
			}
		}
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "egress-system", Name: "egress-proxies-operator"}}
	request := &authenticationv1.TokenRequest{}
	if err := admin.SubResource("token").Create(ctx, account, request); err != nil {
		return "", err
	}
	return request.Status.Token, nil
}

// testEntries are the configured entries; each test adds its own.
type testEntries struct {
	mu        sync.Mutex
	providers map[string]provider.Provider
	checkURL  string
}

func (e *testEntries) Provider(name string) (provider.Provider, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if p, ok := e.providers[name]; ok {
		return p, nil
	}
	return nil, provider.Errorf(provider.ErrPermanent, provider.ReasonInvalidConfig, "the providers file has no entry %q", name)
}

func (e *testEntries) CheckURL() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.checkURL
}

func (e *testEntries) setCheckURL(url string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.checkURL = url
}

func (e *testEntries) set(name string, p provider.Provider) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if p == nil {
		delete(e.providers, name)
		return
	}
	e.providers[name] = p
}

// testProbes answers for the proxies, by the user that the probe sends: each Proxy has its own.
type testProbes struct {
	mu      sync.Mutex
	answers map[string]probeAnswer // by host
	asked   []probe.Options
}

type probeAnswer struct {
	result probe.Result
	err    error
}

func (p *testProbes) request(_ context.Context, opts probe.Options) (probe.Result, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, opts)
	addr := netip.MustParseAddrPort(opts.Endpoint).Addr()
	if a, ok := p.answers[addr.String()]; ok {
		return a.result, a.err
	}
	return probe.Result{Status: 200, EgressIP: addr, ProxyAnswered: true}, nil
}

func (p *testProbes) answer(host string, a *probeAnswer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a == nil {
		delete(p.answers, host)
		return
	}
	p.answers[host] = *a
}

// count tells how many requests went to a host.
func (p *testProbes) count(host string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, asked := range p.asked {
		if asked.Endpoint == net.JoinHostPort(host, "3128") {
			n++
		}
	}
	return n
}

// askedOf gives the last request that went to a host.
func (p *testProbes) askedOf(host string) (probe.Options, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.asked) - 1; i >= 0; i-- {
		if strings.HasPrefix(p.asked[i].Endpoint, host+":") {
			return p.asked[i], true
		}
	}
	return probe.Options{}, false
}
