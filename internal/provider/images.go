package provider

import (
	"context"
	"time"
)

// ImageKeeper is optional: a look at the base images that a backend keeps for later instances, and the
// removal of those that nobody uses.
type ImageKeeper interface {
	// Images lists the base images of a zone, ordered by name, with everything that uses them, whoever
	// owns that (R2.12.1). It removes nothing. An unknown zone is ErrPermanent with ReasonUnknownZone.
	Images(ctx context.Context, zone string) ([]BaseImage, error)
	// RemoveImage removes one base image by its name, and what belongs to it. It asks again whether
	// anything uses it: that is ErrPermanent with ReasonImageInUse (R2.12.2), and an image that may be
	// being written is ErrTransient. One that is not there is nil. After an error or on ctx's end the
	// image may be gone or not; a Create makes what it needs in either case (R2.12.3).
	RemoveImage(ctx context.Context, zone, name string) error
}

// BaseImage is one base image that a zone keeps.
type BaseImage struct {
	// Name of it in the backend.
	Name string `json:"name"`
	// Images of the entry's configuration that have this content; none when it is not configured any more.
	Images []string `json:"images"`
	// SHA256 of the file as it was published, 64 hex digits; empty where the checksum was skipped.
	SHA256 string `json:"sha256,omitempty"`
	// URL that it comes from, without user and query; empty when no configured image has this content.
	URL string `json:"url,omitempty"`
	// SizeBytes is what it takes in the backend.
	SizeBytes uint64     `json:"sizeBytes"`
	State     ImageState `json:"state"`
	// UsedBy names what uses it, in the backend's words, whoever owns that.
	UsedBy []string `json:"usedBy"`
	// ModifiedAt is the time of the last write by the backend's clock; zero when that is not known.
	ModifiedAt time.Time `json:"modifiedAt,omitzero"`
}

// ImageState says whether a base image can be used and removed.
type ImageState string

// The states of a base image.
const (
	// ImageReady: whole and verified. Creates use it.
	ImageReady ImageState = "Ready"
	// ImageWriting: not finished, and young enough that a transfer may still be writing it.
	ImageWriting ImageState = "Writing"
	// ImageLeft: what an interrupted transfer left, or one whose proof of being whole is lost. No Create
	// takes it.
	ImageLeft ImageState = "Left"
)

// Removable says that nothing uses the image and nobody writes it.
func (i BaseImage) Removable() bool { return i.State != ImageWriting && len(i.UsedBy) == 0 }
