package kvm2

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// markNamespace is the XML namespace of the mark. libvirt keeps one metadata element per namespace, and
// drops one without a namespace in silence.
const (
	markNamespace = "https://gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/kvm2"
	markPrefix    = "kvm2"
	markElement   = "instance"
)

// mark says whose an instance is. It is the domain's metadata, so it is written in the same call that
// makes the domain visible.
type mark struct {
	Managed   bool
	UID       string
	Owner     string
	Ref       string
	CreatedAt time.Time
}

// markXML is the mark as written. The names carry the prefix because encoding/xml would otherwise
// repeat the namespace on every child.
type markXML struct {
	XMLName   xml.Name `xml:"kvm2:instance"`
	Namespace string   `xml:"xmlns:kvm2,attr"`
	Managed   bool     `xml:"kvm2:managed"`
	UID       string   `xml:"kvm2:uid"`
	Owner     string   `xml:"kvm2:owner"`
	Ref       string   `xml:"kvm2:ref"`
	CreatedAt string   `xml:"kvm2:createdAt"`
}

// format gives the metadata element. A value that XML cannot carry unchanged is refused.
func (m mark) format() (string, error) {
	for field, value := range map[string]string{"uid": m.UID, "owner": m.Owner, "ref": m.Ref} {
		if err := checkText(field, value); err != nil {
			return "", err
		}
	}
	out, err := xml.Marshal(markXML{
		Namespace: markNamespace,
		Managed:   m.Managed,
		UID:       m.UID,
		Owner:     m.Owner,
		Ref:       m.Ref,
		CreatedAt: m.CreatedAt.UTC().Format(time.RFC3339),
	})
	if err != nil {
		return "", provider.Errorf(provider.ErrPermanent, provider.ReasonInvalidRequest, "write the mark: %w", err)
	}
	return string(out), nil
}

// parseMark finds the mark among a domain's metadata, which other tools share. found is false where
// there is none. A createdAt that does not parse leaves the zero time: it must not hide the UID.
func parseMark(metadata string) (m mark, found bool, err error) {
	dec := xml.NewDecoder(strings.NewReader(metadata))
	for {
		tok, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return m, found, nil
		}
		if err != nil {
			return mark{}, false, fmt.Errorf("read the metadata: %w", err)
		}
		start, ok := tok.(xml.StartElement)
		if !ok {
			continue
		}
		if found || !isMark(start.Name) {
			err = dec.Skip()
		} else {
			m, err = decodeMark(dec, start)
			found = true
		}
		if err != nil {
			return mark{}, false, fmt.Errorf("read the metadata: %w", err)
		}
	}
}

// isMark goes by the local name: libvirt hands the element back with its namespace, with the bare
// prefix, or with neither. Another tool's element of that name has a namespace of its own.
func isMark(name xml.Name) bool {
	return name.Local == markElement &&
		(name.Space == markNamespace || name.Space == markPrefix || name.Space == "")
}

// decodeMark reads the children of start by their local names.
func decodeMark(dec *xml.Decoder, start xml.StartElement) (mark, error) {
	var in struct {
		Managed   string `xml:"managed"`
		UID       string `xml:"uid"`
		Owner     string `xml:"owner"`
		Ref       string `xml:"ref"`
		CreatedAt string `xml:"createdAt"`
	}
	if err := dec.DecodeElement(&in, &start); err != nil {
		return mark{}, err
	}
	m := mark{Managed: in.Managed == "true", UID: in.UID, Owner: in.Owner, Ref: in.Ref}
	if at, err := time.Parse(time.RFC3339, in.CreatedAt); err == nil {
		m.CreatedAt = at.UTC()
	}
	return m, nil
}
