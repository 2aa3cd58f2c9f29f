package kvm2

import "context"

func (o *observed) ConnectGetDomainCapabilities(ctx context.Context, virt virtualization) (string, error) {
	details := []any{"domainType", virt.Type, "machine", virt.Machine}
	return watched(ctx, o, "ConnectGetDomainCapabilities", details, func(ctx context.Context) (string, error) {
		return o.conn.ConnectGetDomainCapabilities(ctx, virt)
	})
}

func (o *observed) ConnectListAllStoragePools(ctx context.Context) ([]pool, error) {
	return watched(ctx, o, "ConnectListAllStoragePools", nil, o.conn.ConnectListAllStoragePools)
}

func (o *observed) InterfaceLookupByName(ctx context.Context, name string) (hostInterface, error) {
	return watched(ctx, o, "InterfaceLookupByName", []any{"interface", name}, func(ctx context.Context) (hostInterface, error) {
		return o.conn.InterfaceLookupByName(ctx, name)
	})
}

func (o *observed) InterfaceGetXMLDesc(ctx context.Context, i hostInterface) (string, error) {
	return watched(ctx, o, "InterfaceGetXMLDesc", []any{"interface", i.Name}, func(ctx context.Context) (string, error) {
		return o.conn.InterfaceGetXMLDesc(ctx, i)
	})
}

// QEMUDomainAgentCommand keeps command and answer out of the log: files of the guest pass through them.
func (o *observed) QEMUDomainAgentCommand(ctx context.Context, d domain, command string) (string, error) {
	details := []any{"domain", d.Name, "bytes", len(command)}
	return watched(ctx, o, "QEMUDomainAgentCommand", details, func(ctx context.Context) (string, error) {
		return o.conn.QEMUDomainAgentCommand(ctx, d, command)
	})
}

func (o *observed) StorageVolDownload(ctx context.Context, v volume, offset, length uint64) ([]byte, error) {
	details := append(volumeDetails(v), "offset", offset, "bytes", length)
	return watched(ctx, o, "StorageVolDownload", details, func(ctx context.Context) ([]byte, error) {
		return o.conn.StorageVolDownload(ctx, v, offset, length)
	})
}
