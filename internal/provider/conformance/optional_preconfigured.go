package conformance

import "gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"

var preconfiguredCases = []Case{
	{Name: "an instance that is a proxy already", Safe: true, Rules: []string{"R2.16.1", "R2.16.2"}, try: preconfigured},
}

const maxPort = 65535

func preconfigured(e *exam) {
	req := e.request()
	id := e.create(req)
	before, err := e.p.Get(e.ctx, id)
	e.need(err == nil, "get: %v", err)
	e.need(before.State == provider.StateRunning, "a new instance has the state %q, want Running", before.State)
	e.must("R2.16.1", before.Port >= 1 && before.Port <= maxPort, "Get gives the port %d of an instance that is Running", before.Port)
	req.CloudInit = append(e.seen.userData(), "# another one\n"...)
	again, err := e.p.Create(e.ctx, req)
	e.must("R2.16.2", err == nil && again == id, "Create with other user-data gives %q, %v, want %q", again, err, id)
	after, err := e.p.Get(e.ctx, id)
	same := err == nil && sameFacts(before, after) && after.State == before.State && after.Port == before.Port
	e.must("R2.16.2", same, "Create with other user-data changed the instance from %+v to %+v, %v", before, after, err)
}
