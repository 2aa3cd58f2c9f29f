package proxy

import (
	"context"
	"net"
	"net/netip"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/api/v1alpha1"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/probe"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// probeTimeout bounds the one request of a look at a running instance.
const probeTimeout = 10 * time.Second

// observe turns what the last job saw into status.
func (r *Reconciler) observe(_ context.Context, s *pass) (reconcile.Result, error) {
	p, last := s.proxy, s.last
	if last != nil && last.err == nil && last.kind == jobObserve {
		p.Status.Address, p.Status.Endpoint = "", ""
		if len(last.instance.Addresses) > 0 {
			p.Status.Address = last.instance.Addresses[0]
			p.Status.Endpoint = net.JoinHostPort(p.Status.Address, portOf(p, last.instance))
		}
		if at := last.instance.CreatedAt; !at.IsZero() {
			p.Status.ProvisionedAt = &metav1.Time{Time: at}
		}
		if last.passed() {
			p.Status.EgressIP = addrText(last.probe.EgressIP)
		}
	}
	describe(p, view{
		running:  r.jobs.kindOf(p.UID),
		last:     last,
		verified: s.inputs.verified(),
		outdated: p.Status.InputsHash != s.inputs.hash,
	})
	return reconcile.Result{}, nil
}

// advance starts the job that is due, or says when to look again.
func (r *Reconciler) advance(ctx context.Context, s *pass) (reconcile.Result, error) {
	p, last := s.proxy, s.last
	if r.jobs.kindOf(p.UID) != "" {
		return reconcile.Result{}, nil // its end wakes this Proxy
	}
	if replace, wait := r.replacementDue(s); replace {
		return reconcile.Result{RequeueAfter: time.Second}, r.replace(ctx, s)
	} else if wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	if last != nil && last.basis == s.basis() {
		if wait := last.next.Sub(r.now()); wait > 0 {
			return reconcile.Result{RequeueAfter: wait}, nil
		}
	}
	switch nextJob(last) {
	case jobCreate:
		r.startCreate(ctx, s)
	case jobObserve, jobDelete:
		r.startObserve(ctx, s)
	}
	return reconcile.Result{}, nil
}

// host names what a job's slowness may hold up: other jobs of the same entry and zone.
func host(p *v1alpha1.Proxy) string { return p.Spec.Provider + "/" + p.Spec.Placement.Zone }

func (r *Reconciler) startCreate(ctx context.Context, s *pass) {
	prov, request, basis, who := s.provider, s.inputs.request, s.basis(), subjectOf(s.proxy)
	r.begin(ctx, s, jobCreate, func(ctx context.Context) {
		_, err := prov.Create(ctx, request)
		r.outcomes.put(who, outcome{kind: jobCreate, basis: basis, err: err})
	})
}

func (r *Reconciler) startDelete(ctx context.Context, s *pass) {
	prov, id, who := s.provider, s.proxy.Status.ProviderID, subjectOf(s.proxy)
	r.begin(ctx, s, jobDelete, func(ctx context.Context) {
		r.outcomes.put(who, outcome{kind: jobDelete, err: deleteInstance(ctx, prov, id)})
	})
}

func (r *Reconciler) startObserve(ctx context.Context, s *pass) {
	prov, in, basis, p := s.provider, s.inputs, s.basis(), s.proxy.DeepCopy()
	r.begin(ctx, s, jobObserve, func(ctx context.Context) {
		o := outcome{kind: jobObserve, basis: basis}
		o.instance, o.err = prov.Get(ctx, p.Status.ProviderID)
		if endpoint := endpointOf(&o, p); endpoint != "" {
			o.probed = true
			o.probe, o.probeErr = r.Probe(ctx, probe.Options{
				Endpoint: endpoint,
				User:     in.probeUser, Password: in.probePassword,
				CheckURL: in.checkURL, Timeout: probeTimeout,
			})
			o.probeErr = expectEgress(p.Spec.ExpectedEgressIP, o.probe, o.probeErr)
		}
		r.outcomes.put(subjectOf(p), o)
	})
}

// endpointOf is where to send the request: the address that the instance has, or, where its host cannot
// be asked, the one that it had. A proxy works on when its hypervisor's management does not answer.
func endpointOf(o *outcome, p *v1alpha1.Proxy) string {
	switch {
	case o.gone():
		return ""
	case o.err != nil:
		return p.Status.Endpoint
	case o.instance.State == provider.StateRunning && len(o.instance.Addresses) > 0:
		return net.JoinHostPort(o.instance.Addresses[0], portOf(p, o.instance))
	}
	return ""
}

// portOf is where the proxy listens: where the instance says, or else where its user-data told it to.
func portOf(p *v1alpha1.Proxy, inst provider.Instance) string {
	if inst.Port != 0 {
		return strconv.Itoa(inst.Port)
	}
	return strconv.Itoa(int(p.Spec.Port))
}

func (r *Reconciler) begin(ctx context.Context, s *pass, kind jobKind, work func(context.Context)) {
	p := s.proxy
	r.jobs.start(ctx, client.ObjectKeyFromObject(p), p.UID, host(p), kind, work)
}

// unexpectedEgress says that a request passed from another address than the one that is wanted.
type unexpectedEgress struct{ want, got string }

func (e *unexpectedEgress) Error() string {
	return "the other end saw " + e.got + ", and spec.expectedEgressIP is " + e.want
}

// expectEgress checks the address that the other end saw, where one is expected.
func expectEgress(want string, got probe.Result, err error) error {
	if err != nil || want == "" {
		return err
	}
	wanted, werr := netip.ParseAddr(want)
	if werr == nil && wanted.Unmap() == got.EgressIP.Unmap() {
		return nil
	}
	return &unexpectedEgress{want: want, got: orUnknown(addrText(got.EgressIP))}
}

// addrText is "" for no address.
func addrText(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.Unmap().String()
}
