package static

import (
	"context"
	"errors"
)

// store is the seam (contract 4.15): what the provider does to the lease directory and to the endpoints. Files are
// named relative to the lease directory. Every method ends within a second of its ctx; one that is given up may
// still take effect later, as a whole (R5.2.5).
type store interface {
	// Read gives a file. errAbsent is the proof that it is not there: the folder of the leased endpoints is.
	Read(ctx context.Context, zone, file string) ([]byte, error)
	// Claims names the files in the folder of the leased endpoints.
	Claims(ctx context.Context, zone string) ([]string, error)
	// Prepare makes the folders beside the one of the leased endpoints, and never that.
	Prepare(ctx context.Context, zone string) error
	// Make writes a file that is not there yet, whole or not at all. errExists says that it is there, with other content.
	Make(ctx context.Context, zone, file string, content []byte) error
	// Link gives a file a second name: errExists where that is taken, errAbsent where the file is gone.
	Link(ctx context.Context, zone, from, to string) error
	// Replace changes a file from one content to another, whole or not at all. errChanged says that it had not the
	// first one.
	Replace(ctx context.Context, zone, file string, from, to []byte) error
	// Remove takes a file away that has this content. One that is not there is nil, one with another content
	// errChanged.
	Remove(ctx context.Context, zone, file string, content []byte) error
	// Writable says whether files can be made, and makes none.
	Writable(ctx context.Context, zone string) error
	// Dial connects to an endpoint and hangs up.
	Dial(ctx context.Context, zone, address string) error
}

// What a store says beside the errors of the operating system.
var (
	errAbsent      = errors.New("is not there")
	errExists      = errors.New("is there already")
	errChanged     = errors.New("has changed meanwhile")
	errUnreadable  = errors.New("is not a lease that can be read")
	errNoDirectory = errors.New("the lease directory has no folder endpoints: see that it is mounted, or set it up once with mkdir -p -m 0700 <leaseDirectory>/endpoints")
)
