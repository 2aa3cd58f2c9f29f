package provider

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
)

// Limits of a CreateRequest, in bytes.
const (
	MaxOwner     = 253
	MaxRef       = 317 // a namespace of 63, a slash, a name of 253
	MaxCloudInit = 1 << 20
)

// Format implements fmt.Formatter: every verb prints the fields by name, the cloud-init as its length.
func (r CreateRequest) Format(f fmt.State, _ rune) {
	type fields CreateRequest               // without this method
	_, _ = fmt.Fprintf(f, "%+v", fields(r)) // fmt.State keeps what it is given: there is nobody to tell
}

// Validate checks what needs no backend and no configuration: the name's form, the UID, the owner, the
// ref and the cloud-init's size. It returns nil, or one ErrPermanent with ReasonInvalidRequest that
// tells everything that is wrong, and never anything of the cloud-init but its size.
func (r CreateRequest) Validate() error {
	var wrong []string
	complain := func(field, problem string) {
		if problem != "" {
			wrong = append(wrong, field+" "+problem)
		}
	}
	if !isLabel(r.Name) {
		complain("name", "must be a DNS label in lower case of at most 63 bytes, is "+quote(r.Name))
	}
	complain("uid", uidProblem(r.UID))
	complain("owner", textProblem(r.Owner, MaxOwner))
	complain("ref", refProblem(r.Ref))
	switch {
	case len(r.CloudInit) == 0:
		complain("cloudInit", "is empty")
	case len(r.CloudInit) > MaxCloudInit:
		complain("cloudInit", "must have at most "+strconv.Itoa(MaxCloudInit)+" bytes, has "+
			strconv.Itoa(len(r.CloudInit)))
	}
	if wrong == nil {
		return nil
	}
	return Errorf(ErrPermanent, ReasonInvalidRequest, "invalid request: %s", strings.Join(wrong, "; "))
}

// uidProblem says what is wrong with a UID, or "". The nil and the max UUID identify nothing.
func uidProblem(uid string) string {
	id, err := uuid.Parse(uid)
	if err != nil || id.String() != uid || id == uuid.Nil || id == uuid.Max {
		return "must be an RFC 9562 UUID in its lower-case form with hyphens, is " + quote(uid)
	}
	return ""
}

// refProblem says what is wrong with a ref, or "".
func refProblem(ref string) string {
	if problem := textProblem(ref, MaxRef); problem != "" {
		return problem
	}
	namespace, name, found := strings.Cut(ref, "/")
	if !found || namespace == "" || name == "" || strings.Contains(name, "/") || strings.Contains(ref, " ") {
		return `must be "namespace/name", is ` + quote(ref)
	}
	return ""
}

// textProblem says why s cannot stand in a mark, or "": a mark is XML in some backends and a tag with a
// limit in others.
func textProblem(s string, limit int) string {
	switch {
	case s == "":
		return "is empty"
	case len(s) > limit:
		return "must have at most " + strconv.Itoa(limit) + " bytes, has " + strconv.Itoa(len(s))
	case !isPrintable(s):
		return "must be printable UTF-8 text without control characters, is " + quote(s)
	}
	return ""
}

// isPrintable reports whether s is valid UTF-8 whose only space is the ordinary one.
func isPrintable(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

// maxQuoted is how much of a wrong value a message repeats, in runes.
const maxQuoted = 64

// quote shows a wrong value in a message: quoted, and shortened when long.
func quote(s string) string {
	if runes := []rune(s); len(runes) > maxQuoted {
		return strconv.Quote(string(runes[:maxQuoted])) + "..."
	}
	return strconv.Quote(s)
}
