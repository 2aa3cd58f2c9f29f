package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// ErrNoRecord says that nothing is recorded under a name.
var ErrNoRecord = errors.New("no record")

// version of the record's format. A reader refuses a newer one.
const version = 1

// Record is what egressctl remembers of one instance. It holds secrets: it is never printed or
// logged as a whole.
type Record struct {
	Version int    `json:"version"`
	Entry   string `json:"entry"`
	Name    string `json:"name"`
	// UID, InstanceName and ID as the provider knows the instance. ID may be empty before Create.
	UID          string    `json:"uid"`
	InstanceName string    `json:"instanceName"`
	ID           string    `json:"id,omitempty"`
	CreatedAt    time.Time `json:"createdAt"`
	// Inputs are what the user asked for.
	Inputs Inputs `json:"inputs"`
	// CheckURL of the providers file when the record was made. The probe credential is good for no
	// other.
	CheckURL string `json:"checkURL"`
	// PasswordHash of the user's password, made once.
	PasswordHash string `json:"passwordHash,omitempty"`
	// Password, only where egressctl generated it.
	Password string `json:"password,omitempty"`
	// ProbeUser and ProbePassword are the credential for the check URL.
	ProbeUser     string `json:"probeUser,omitempty"`
	ProbePassword string `json:"probePassword,omitempty"`
	// UserData as rendered, byte for byte.
	UserData []byte `json:"userData"`
}

// Inputs are the choices that a record was made from, in normal form.
type Inputs struct {
	Placement provider.Placement `json:"placement"`
	Port      int                `json:"port"`
	AuthUser  string             `json:"authUser,omitempty"`
	// CIDRs and domain names, ordered, without repetition.
	AllowSources             []string `json:"allowSources,omitempty"`
	AllowDestinations        []string `json:"allowDestinations,omitempty"`
	AllowPrivateDestinations []string `json:"allowPrivateDestinations,omitempty"`
	SSHKeys                  []string `json:"sshKeys,omitempty"`
	// UserDataSHA256 of the user's own user-data, in hex. Empty for ours.
	UserDataSHA256 string `json:"userDataSHA256,omitempty"`
}

// Load reads a record: ErrNoRecord where there is none.
func (d *Dir) Load(entry, name string) (*Record, error) {
	k, err := key(entry, name)
	if err != nil {
		return nil, err
	}
	return d.read(d.file(k))
}

// Save writes r whole or not at all.
func (d *Dir) Save(r *Record) error {
	k, err := key(r.Entry, r.Name)
	if err != nil {
		return err
	}
	r.Version = version
	data, err := json.MarshalIndent(r, "", "  ") //nolint:gosec // to keep it is what this file is for
	if err != nil {
		return fmt.Errorf("encode the record of %s: %w", r.Name, err)
	}
	if err := writeFile(d.file(k), append(data, '\n')); err != nil {
		return fmt.Errorf("keep the record of %s: %w", r.Name, err)
	}
	return nil
}

// Remove forgets a record. One that is not there is no error.
func (d *Dir) Remove(entry, name string) error {
	k, err := key(entry, name)
	if err != nil {
		return err
	}
	if err := os.Remove(d.file(k)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the record of %s: %w", name, err)
	}
	return syncDir(d.instances())
}

// List reads all records, ordered by entry and name. Records that cannot be read are in the error,
// the others in the result.
func (d *Dir) List() ([]*Record, error) {
	names, err := d.names()
	if err != nil {
		return nil, err
	}
	var out []*Record
	var bad []error
	for _, k := range names {
		r, err := d.read(d.file(k))
		switch {
		case errors.Is(err, ErrNoRecord): // removed meanwhile
		case err != nil:
			bad = append(bad, err)
		default:
			out = append(out, r)
		}
	}
	return out, errors.Join(bad...)
}

func (d *Dir) file(key string) string { return filepath.Join(d.instances(), key+".json") }

// names gives the key of every record, ordered.
func (d *Dir) names() ([]string, error) {
	entries, err := os.ReadDir(d.instances())
	if err != nil {
		return nil, fmt.Errorf("list the records: %w", err)
	}
	var out []string
	for _, e := range entries {
		if k, ok := strings.CutSuffix(e.Name(), ".json"); ok && !strings.HasPrefix(k, ".") {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return out, nil
}

func (d *Dir) read(path string) (*Record, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNoRecord
	}
	if err != nil {
		return nil, fmt.Errorf("read a record: %w", err)
	}
	r := &Record{}
	if err := json.Unmarshal(data, r); err != nil {
		// The decoder's message may quote what it read.
		return nil, fmt.Errorf("the record %s cannot be read: move it away, and delete the instance by its name", path)
	}
	if r.Version > version {
		return nil, fmt.Errorf("the record %s is of a newer egressctl: use that one", path)
	}
	return r, nil
}
