package kvm2

import (
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// Render gives the domain and the seed's files that Create would send, without asking a host. What
// only the host knows is assumed: KVM on x86_64, and volume paths below a directory named after the
// pool. The mark has no time yet.
func (p *Provider) Render(req provider.CreateRequest) ([]provider.Document, error) {
	docs, err := p.render(req)
	if err != nil {
		return nil, provider.Wrap(p.name, classifyInCreate("render "+clip(req.Name), err))
	}
	return docs, nil
}

func (p *Provider) render(req provider.CreateRequest) ([]provider.Document, error) {
	plan, err := p.plan(req)
	if err != nil {
		return nil, err
	}
	dir := "/" + plan.host.Pool + "/"
	disks := diskPaths{overlay: dir + overlayName(req.Name), seed: dir + seedName(req.Name)}
	virt := virtualization{Type: virtKVM, Arch: "x86_64", Machine: machineAliases["x86_64"]}
	domain, err := domainXML(p.domainSpec(plan, disks, virt, time.Time{}))
	if err != nil {
		return nil, err
	}
	files, err := seedFiles(p.seedSpec(req))
	if err != nil {
		return nil, err
	}
	docs := []provider.Document{{Name: "domain.xml", Content: domain}}
	for _, name := range []string{"user-data", "meta-data", "vendor-data"} {
		docs = append(docs, provider.Document{Name: name, Content: string(files[name])})
	}
	return docs, nil
}
