package provider

import (
	"encoding/hex"
	"strings"
)

// Lengths of digests in hex digits.
const (
	sha256Digits = 64
	sha512Digits = 128
)

func imageProblems(at, name string, image *KVMImage) Problems {
	problems := keyProblems(at, name)
	if problem := urlProblem(image.URL); problem != "" {
		problems.add(at+".url", "%s", problem)
	}
	problems = append(problems, digestProblems(at, image)...)
	if image.Firmware != FirmwareUEFI && image.Firmware != FirmwareBIOS {
		problems.add(at+".firmware", "must be %s or %s, is %s", FirmwareUEFI, FirmwareBIOS, quote(image.Firmware))
	}
	if image.Format != FormatQCOW2 && image.Format != FormatRaw {
		problems.add(at+".format", "must be %s or %s, is %s", FormatQCOW2, FormatRaw, quote(image.Format))
	}
	return problems
}

func digestProblems(at string, image *KVMImage) Problems {
	var problems Problems
	switch {
	case image.SHA256 == "" && !image.InsecureSkipChecksum:
		problems.add(at+".sha256", "is required, unless insecureSkipChecksum is true")
	case image.SHA256 != "" && image.InsecureSkipChecksum:
		problems.add(at+".insecureSkipChecksum", "must not be true beside a sha256: leave one of them out")
	case image.SHA256 != "":
		digest, problem := normaliseDigest(image.SHA256)
		if problem != "" {
			problems.add(at+".sha256", "%s", problem)
		}
		image.SHA256 = digest
	}
	return problems
}

// normaliseDigest brings a SHA-256 into its normal form where there is no doubt what is meant: letter
// case, a "sha256:" in front, spaces around. Else it says what is expected.
func normaliseDigest(s string) (digest, problem string) {
	digest = strings.ToLower(strings.TrimSpace(s))
	digest = strings.TrimSpace(strings.TrimPrefix(digest, "sha256:"))
	_, err := hex.DecodeString(digest)
	switch {
	case err == nil && len(digest) == sha256Digits:
		return digest, ""
	case err == nil && len(digest) == sha512Digits:
		return s, "must be a SHA-256, 64 hex digits; this is as long as a SHA-512"
	}
	return s, "must be a SHA-256, 64 hex digits as sha256sum prints them first, is " + quote(s)
}
