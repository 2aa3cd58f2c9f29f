package kvm2

import (
	"encoding/xml"
	"strings"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider/conformance"
)

// thingOfDomain reads a domain's XML with a reader of its own, not the provider's.
func thingOfDomain(zone, name, doc string, running bool) conformance.Thing {
	var dom struct {
		Metadata struct {
			Instance *struct {
				UID       string `xml:"uid"`
				Owner     string `xml:"owner"`
				Ref       string `xml:"ref"`
				CreatedAt string `xml:"createdAt"`
			} `xml:"instance"`
		} `xml:"metadata"`
	}
	thing := conformance.Thing{Kind: conformance.Instance, Zone: zone, Name: name, Running: running, Content: doc}
	if err := xml.Unmarshal([]byte(doc), &dom); err != nil || dom.Metadata.Instance == nil {
		return thing
	}
	in := dom.Metadata.Instance
	at, _ := time.Parse(time.RFC3339, in.CreatedAt) // zero where there is none
	thing.Mark = &conformance.Mark{Owner: in.Owner, UID: in.UID, Ref: in.Ref, CreatedAt: at}
	return thing
}

// thingOfVolume says what a volume is by its name.
func thingOfVolume(zone, name, content string) conformance.Thing {
	thing := conformance.Thing{Kind: conformance.Resource, Zone: zone, Name: name, Content: content}
	of, isSeed := strings.CutSuffix(name, "-seed.iso")
	switch {
	case strings.HasPrefix(name, "kvm2-base-") && len(name) > len("kvm2-base-")+64:
		thing.Kind = conformance.Shared
	case isSeed:
		thing.Of = of
	default:
		thing.Of = strings.TrimSuffix(name, ".qcow2")
	}
	return thing
}
