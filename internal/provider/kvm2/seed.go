package kvm2

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/kdomanski/iso9660"
	"sigs.k8s.io/yaml"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// seedLabel is the file system label by which cloud-init's NoCloud data source finds the seed.
const seedLabel = "cidata"

// maxUserData is the limit of a Kubernetes object, which is where user-data comes from.
const maxUserData = 1 << 20

// seedSpec is what goes into a seed.
type seedSpec struct {
	// UID becomes the instance-id: cloud-init does its first-boot work once for each.
	UID string
	// Hostname is made a valid label where it is not one.
	Hostname string
	// UserData goes in byte for byte. It is a secret.
	UserData provider.Secret
	// ExtraVendorData is the configuration's extra script, or empty.
	ExtraVendorData string
	// NetworkConfig is left out when empty: cloud-init then asks DHCP on the one interface.
	NetworkConfig []byte
}

// seed is an ISO 9660 image of Size bytes. It is read once, from its start, and must be closed.
type seed struct {
	file *os.File
	Size int64
}

// Read implements io.Reader.
func (s *seed) Read(p []byte) (int, error) { return s.file.Read(p) }

// Close frees the image, which has no name on the disk any more.
func (s *seed) Close() error { return s.file.Close() }

// buildSeed writes the seed to a private temporary directory under os.TempDir and removes it before it
// returns: the open file is all that is left, so not even a killed process leaves the secret behind.
func buildSeed(spec seedSpec) (*seed, error) {
	files, err := seedFiles(spec)
	if err != nil {
		return nil, err
	}
	s, err := writeSeed(files)
	if err != nil {
		return nil, provider.Errorf(provider.ErrTransient, provider.ReasonBackendError,
			"write the seed below %s: %w", os.TempDir(), err)
	}
	return s, nil
}

func seedFiles(spec seedSpec) (map[string][]byte, error) {
	if err := checkUserData(spec.UserData); err != nil {
		return nil, err
	}
	if err := checkFilled("UID", spec.UID); err != nil {
		return nil, err
	}
	metaData, err := yaml.Marshal(map[string]string{
		"instance-id":    spec.UID,
		"local-hostname": hostLabel(spec.Hostname),
	})
	if err != nil {
		return nil, provider.Errorf(provider.ErrPermanent, provider.ReasonInvalidRequest, "write the meta-data: %w", err)
	}
	vendor, err := vendorData(spec.ExtraVendorData)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{
		"meta-data":   metaData,
		"user-data":   spec.UserData,
		"vendor-data": []byte(vendor),
	}
	if len(spec.NetworkConfig) > 0 {
		files["network-config"] = spec.NetworkConfig
	}
	return files, nil
}

// checkUserData refuses what cloud-init would pass over in silence. It never quotes the data.
func checkUserData(data []byte) error {
	refuse := func(what string) error {
		return provider.Errorf(provider.ErrPermanent, provider.ReasonInvalidRequest, "the user-data %s", what)
	}
	switch {
	case len(data) > maxUserData:
		return refuse(fmt.Sprintf("is %d bytes long, more than the %d that a Kubernetes object can hold", len(data), maxUserData))
	case bytes.HasPrefix(data, []byte("\xef\xbb\xbf")):
		return refuse("starts with a byte order mark, which hides its first line from cloud-init: save it as UTF-8 without one")
	case bytes.HasPrefix(data, []byte("\xff\xfe")), bytes.HasPrefix(data, []byte("\xfe\xff")),
		bytes.HasPrefix(data, []byte("#\x00")), bytes.HasPrefix(data, []byte("\x00#")):
		return refuse("is UTF-16, which cloud-init does not read: save it as UTF-8")
	}
	return nil
}

var notLabel = regexp.MustCompile(`[^a-z0-9]+`)

// hostLabel makes a host name of one label (RFC 1123) of name. One that has to be changed gets a hash of
// the original, so that two names stay two.
func hostLabel(name string) string {
	if namePattern.MatchString(name) {
		return name
	}
	const hashed = 8
	sum := sha256.Sum256([]byte(name))
	label := strings.Trim(notLabel.ReplaceAllString(strings.ToLower(name), "-"), "-")
	if label == "" {
		label = "vm"
	}
	label = strings.TrimRight(label[:min(len(label), 63-1-hashed)], "-")
	return label + "-" + hex.EncodeToString(sum[:])[:hashed]
}

func writeSeed(files map[string][]byte) (*seed, error) {
	file, err := unnamedFile()
	if err != nil {
		return nil, err
	}
	size, err := writeImage(file, files)
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &seed{file: file, Size: size}, nil
}

// unnamedFile makes a file of mode 0600 that is gone as soon as it is closed.
func unnamedFile() (*os.File, error) {
	file, err := os.CreateTemp("", "seed-*.iso")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// writeImage leaves file at its start. NewWriter stages in a directory of mode 0700 below os.TempDir,
// which must be writable where the root file system is not.
func writeImage(file *os.File, files map[string][]byte) (size int64, err error) {
	w, err := iso9660.NewWriter()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, w.Cleanup()) }()
	for name, content := range files {
		if err := w.AddFile(bytes.NewReader(content), name); err != nil {
			return 0, err
		}
	}
	if err := w.WriteTo(file, seedLabel); err != nil {
		return 0, err
	}
	if size, err = file.Seek(0, io.SeekCurrent); err != nil {
		return 0, err
	}
	_, err = file.Seek(0, io.SeekStart)
	return size, err
}
