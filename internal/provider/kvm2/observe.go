package kvm2

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/digitalocean/go-libvirt"
	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/tracing"
)

// attrHost is the span attribute with a host's configured name.
const attrHost = "kvm2.host"

// observed is the one decorator of a connection: per call a span kvm2.<Call>, a log line at V(1), and
// at V(2) names and sizes. XML and the bodies of uploads are never part of either: they may hold
// a guest's secrets.
type observed struct {
	conn
	log  logr.Logger
	host string
}

// observe decorates a connection where it is born, so that nobody sees a bare one. The logger
// serves calls whose ctx carries none.
func observe(c conn, log logr.Logger, host string) conn {
	return &observed{conn: c, log: log, host: host}
}

// watched runs one call under its span and its log lines. details are key and value pairs for V(2).
func watched[T any](ctx context.Context, o *observed, name string, details []any, fn func(context.Context) (T, error)) (T, error) {
	ctx, span := tracing.Start(ctx, "kvm2."+name, attribute.String(attrHost, o.host))
	defer span.End()
	start := time.Now()
	value, err := fn(ctx)
	spanOutcome(span, err)
	log := ctxLogger(ctx, o.log)
	log.V(1).Info("kvm2."+name, "host", o.host, "duration", time.Since(start), "outcome", outcome(err))
	if len(details) > 0 {
		log.V(2).Info("kvm2."+name, append([]any{"host", o.host}, details...)...)
	}
	return value, err
}

// withoutValue gives a call without a result the form that watched takes.
func withoutValue(fn func(context.Context) error) func(context.Context) (struct{}, error) {
	return func(ctx context.Context) (struct{}, error) { return struct{}{}, fn(ctx) }
}

// spanOutcome puts a call's end on its span. The error's text stays out: it is the caller's to tell.
func spanOutcome(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, outcome(err))
	}
}

// outcome is a call's end in one word or two: ok, a reason, or libvirt's error code.
func outcome(err error) string {
	var answer libvirt.Error
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &answer):
		return fmt.Sprintf("libvirt error %d", answer.Code)
	case errors.Is(err, context.Canceled):
		return provider.ReasonCanceled
	case errors.Is(err, context.DeadlineExceeded):
		return provider.ReasonTimeout
	}
	return provider.ReasonOf(err)
}

// ctxLogger is the logger that ctx carries, else fallback.
func ctxLogger(ctx context.Context, fallback logr.Logger) logr.Logger {
	if log, err := logr.FromContext(ctx); err == nil {
		return log
	}
	return fallback
}

func (o *observed) ConnectGetLibVersion(ctx context.Context) (uint64, error) {
	return watched(ctx, o, "ConnectGetLibVersion", nil, o.conn.ConnectGetLibVersion)
}

func (o *observed) ConnectGetHostname(ctx context.Context) (string, error) {
	return watched(ctx, o, "ConnectGetHostname", nil, o.conn.ConnectGetHostname)
}

func (o *observed) ConnectGetCapabilities(ctx context.Context) (string, error) {
	return watched(ctx, o, "ConnectGetCapabilities", nil, o.conn.ConnectGetCapabilities)
}

func (o *observed) ConnectListAllDomains(ctx context.Context) ([]domain, error) {
	return watched(ctx, o, "ConnectListAllDomains", nil, o.conn.ConnectListAllDomains)
}

func (o *observed) DomainLookupByName(ctx context.Context, name string) (domain, error) {
	return watched(ctx, o, "DomainLookupByName", []any{"domain", name}, func(ctx context.Context) (domain, error) {
		return o.conn.DomainLookupByName(ctx, name)
	})
}

func (o *observed) DomainDefineXML(ctx context.Context, xml string) (domain, error) {
	return watched(ctx, o, "DomainDefineXML", []any{"bytes", len(xml)}, func(ctx context.Context) (domain, error) {
		return o.conn.DomainDefineXML(ctx, xml)
	})
}

func (o *observed) DomainCreate(ctx context.Context, d domain) error {
	_, err := watched(ctx, o, "DomainCreate", []any{"domain", d.Name}, withoutValue(func(ctx context.Context) error {
		return o.conn.DomainCreate(ctx, d)
	}))
	return err
}

func (o *observed) DomainDestroy(ctx context.Context, d domain) error {
	_, err := watched(ctx, o, "DomainDestroy", []any{"domain", d.Name}, withoutValue(func(ctx context.Context) error {
		return o.conn.DomainDestroy(ctx, d)
	}))
	return err
}

func (o *observed) DomainUndefineFlags(ctx context.Context, d domain, flags uint32) error {
	_, err := watched(ctx, o, "DomainUndefineFlags", []any{"domain", d.Name, "flags", flags}, withoutValue(func(ctx context.Context) error {
		return o.conn.DomainUndefineFlags(ctx, d, flags)
	}))
	return err
}

func (o *observed) DomainSetAutostart(ctx context.Context, d domain, on bool) error {
	_, err := watched(ctx, o, "DomainSetAutostart", []any{"domain", d.Name, "on", on}, withoutValue(func(ctx context.Context) error {
		return o.conn.DomainSetAutostart(ctx, d, on)
	}))
	return err
}

func (o *observed) DomainGetState(ctx context.Context, d domain) (state, reason int32, err error) {
	pair, err := watched(ctx, o, "DomainGetState", []any{"domain", d.Name}, func(ctx context.Context) ([2]int32, error) {
		state, reason, err := o.conn.DomainGetState(ctx, d)
		return [2]int32{state, reason}, err
	})
	return pair[0], pair[1], err
}

func (o *observed) DomainGetXMLDesc(ctx context.Context, d domain) (string, error) {
	return watched(ctx, o, "DomainGetXMLDesc", []any{"domain", d.Name}, func(ctx context.Context) (string, error) {
		return o.conn.DomainGetXMLDesc(ctx, d)
	})
}

func (o *observed) DomainInterfaceAddresses(ctx context.Context, d domain, source addressSource) ([]guestInterface, error) {
	details := []any{"domain", d.Name, "source", uint32(source)}
	return watched(ctx, o, "DomainInterfaceAddresses", details, func(ctx context.Context) ([]guestInterface, error) {
		return o.conn.DomainInterfaceAddresses(ctx, d, source)
	})
}

func (o *observed) StoragePoolLookupByName(ctx context.Context, name string) (pool, error) {
	return watched(ctx, o, "StoragePoolLookupByName", []any{"pool", name}, func(ctx context.Context) (pool, error) {
		return o.conn.StoragePoolLookupByName(ctx, name)
	})
}

func (o *observed) StoragePoolGetInfo(ctx context.Context, p pool) (poolInfo, error) {
	return watched(ctx, o, "StoragePoolGetInfo", []any{"pool", p.Name}, func(ctx context.Context) (poolInfo, error) {
		return o.conn.StoragePoolGetInfo(ctx, p)
	})
}

func (o *observed) StoragePoolGetXMLDesc(ctx context.Context, p pool) (string, error) {
	return watched(ctx, o, "StoragePoolGetXMLDesc", []any{"pool", p.Name}, func(ctx context.Context) (string, error) {
		return o.conn.StoragePoolGetXMLDesc(ctx, p)
	})
}

func (o *observed) StoragePoolRefresh(ctx context.Context, p pool) error {
	_, err := watched(ctx, o, "StoragePoolRefresh", []any{"pool", p.Name}, withoutValue(func(ctx context.Context) error {
		return o.conn.StoragePoolRefresh(ctx, p)
	}))
	return err
}

func (o *observed) StoragePoolListAllVolumes(ctx context.Context, p pool) ([]volume, error) {
	return watched(ctx, o, "StoragePoolListAllVolumes", []any{"pool", p.Name}, func(ctx context.Context) ([]volume, error) {
		return o.conn.StoragePoolListAllVolumes(ctx, p)
	})
}

func (o *observed) StorageVolLookupByName(ctx context.Context, p pool, name string) (volume, error) {
	details := []any{"pool", p.Name, "volume", name}
	return watched(ctx, o, "StorageVolLookupByName", details, func(ctx context.Context) (volume, error) {
		return o.conn.StorageVolLookupByName(ctx, p, name)
	})
}

func (o *observed) StorageVolCreateXML(ctx context.Context, p pool, xml string) (volume, error) {
	details := []any{"pool", p.Name, "bytes", len(xml)}
	return watched(ctx, o, "StorageVolCreateXML", details, func(ctx context.Context) (volume, error) {
		return o.conn.StorageVolCreateXML(ctx, p, xml)
	})
}

func (o *observed) StorageVolGetPath(ctx context.Context, v volume) (string, error) {
	return watched(ctx, o, "StorageVolGetPath", volumeDetails(v), func(ctx context.Context) (string, error) {
		return o.conn.StorageVolGetPath(ctx, v)
	})
}

func (o *observed) StorageVolGetXMLDesc(ctx context.Context, v volume) (string, error) {
	return watched(ctx, o, "StorageVolGetXMLDesc", volumeDetails(v), func(ctx context.Context) (string, error) {
		return o.conn.StorageVolGetXMLDesc(ctx, v)
	})
}

func (o *observed) StorageVolUpload(ctx context.Context, v volume, r io.Reader, length uint64) error {
	details := append(volumeDetails(v), "bytes", length)
	_, err := watched(ctx, o, "StorageVolUpload", details, withoutValue(func(ctx context.Context) error {
		return o.conn.StorageVolUpload(ctx, v, r, length)
	}))
	return err
}

func (o *observed) StorageVolDelete(ctx context.Context, v volume) error {
	_, err := watched(ctx, o, "StorageVolDelete", volumeDetails(v), withoutValue(func(ctx context.Context) error {
		return o.conn.StorageVolDelete(ctx, v)
	}))
	return err
}

func volumeDetails(v volume) []any { return []any{"pool", v.Pool, "volume", v.Name} }
