package kvm2

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/digitalocean/go-libvirt"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// maxConsole is as much of a log as one call reads: what virtlogd lets a file grow to by default.
const maxConsole = 2 << 20

// ReadConsole reads the log of the instance's serial port, which its host keeps in the pool.
func (p *Provider) ReadConsole(ctx context.Context, id string, from int64, w io.Writer) (int64, error) {
	ctx, log := p.begin(ctx, "console")
	data, next, err := p.readConsole(ctx, id, from)
	if err == nil {
		_, err = w.Write(data)
	}
	if err != nil {
		return from, p.failed(ctx, classify, "read the console of "+clip(id), err)
	}
	log.V(1).Info("console read", "id", id, "bytes", len(data))
	return next, nil
}

func (p *Provider) readConsole(ctx context.Context, id string, from int64) (data []byte, next int64, err error) {
	f, err := p.lookUp(ctx, id)
	if err != nil {
		return nil, from, err
	}
	// The path in the definition, not the name, says where the log is: an admin may have moved it.
	if path.Base(f.info.ConsoleLog) != consoleLogName(f.name) {
		return nil, from, noConsole("the VM was made without a console log: look with virsh console %s on the host", f.name)
	}
	pl, err := f.conn.StoragePoolLookupByName(ctx, f.host.Pool)
	if err != nil {
		return nil, from, inMiddle(fmt.Errorf("look up pool %s: %w", f.host.Pool, err))
	}
	vol, err := p.consoleVolume(ctx, f.conn, pl, f.name)
	if err != nil {
		return nil, from, err
	}
	// A stream that breaks takes its connection along, so it has one of its own.
	c, err := p.hosts.secondary(ctx, f.zone)
	if err != nil {
		return nil, from, err
	}
	defer func() { _ = c.Close() }() // all of it was read
	data, next, err = readLog(ctx, c, vol, uint64(max(from, 0)))
	return data, next, inMiddle(err)
}

// readLog reads from the offset on. Where nothing is there, the last byte before it tells whether the
// file ends there, or was begun anew and is shorter.
func readLog(ctx context.Context, c backend, vol volume, from uint64) ([]byte, int64, error) {
	data, err := c.StorageVolDownload(ctx, vol, from, maxConsole)
	if err == nil && len(data) == 0 && from > 0 {
		var before []byte
		if before, err = c.StorageVolDownload(ctx, vol, from-1, 1); err == nil && len(before) == 0 {
			from = 0
			data, err = c.StorageVolDownload(ctx, vol, 0, maxConsole)
		}
	}
	if err != nil {
		return nil, int64(from), fmt.Errorf("read volume %s: %w", vol.Name, err)
	}
	return data, int64(from) + int64(len(data)), nil
}

// consoleVolume finds the log, which is in no listing before the pool is refreshed for the first time
// after the VM's start.
func (p *Provider) consoleVolume(ctx context.Context, c backend, pl pool, name string) (volume, error) {
	vol, err := c.StorageVolLookupByName(ctx, pl, consoleLogName(name))
	if isLibvirtError(err, libvirt.ErrNoStorageVol) {
		if err := p.images.refresh(ctx, c, pl); err != nil {
			return volume{}, inMiddle(fmt.Errorf("refresh pool %s: %w", pl.Name, err))
		}
		vol, err = c.StorageVolLookupByName(ctx, pl, consoleLogName(name))
	}
	if isLibvirtError(err, libvirt.ErrNoStorageVol) {
		return volume{}, noConsole("the VM has not written to its console: it was never started, or its log was removed")
	}
	if err != nil {
		return volume{}, inMiddle(fmt.Errorf("look up volume %s: %w", consoleLogName(name), err))
	}
	return vol, nil
}

func noConsole(format string, args ...any) error {
	return provider.Errorf(provider.ErrPermanent, provider.ReasonNoConsole, format, args...)
}

// inMiddle keeps what is missing beside an instance that is there from looking like the instance's own
// absence.
func inMiddle(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return classifyInCreate("", err)
}
