package kvm2

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"testing"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// testVirtualSize is the size of the disk that a test image holds.
const testVirtualSize = 2 << 30

// qcow2Bytes gives length bytes that begin as a qcow2 image of version 3 does, changed by mods.
func qcow2Bytes(length int, mods ...func(head []byte)) []byte {
	data := make([]byte, length)
	be := binary.BigEndian
	copy(data, "QFI\xfb")
	be.PutUint32(data[4:], 3)
	be.PutUint32(data[20:], 16) // clusters of 64 KiB
	be.PutUint64(data[24:], testVirtualSize)
	be.PutUint32(data[36:], 4) // L1 entries
	be.PutUint64(data[40:], 1024)
	be.PutUint32(data[100:], 104)
	for i := 2048; i < length; i++ {
		data[i] = byte(i * 31 >> 3)
	}
	for _, mod := range mods {
		mod(data)
	}
	return data
}

func hexSum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// testImage is an image that no server has: nothing listens there.
func testImage(t *testing.T) provider.KVMImage {
	t.Helper()
	return provider.KVMImage{
		URL: "http://127.0.0.1:1/egress.qcow2", SHA256: hexSum(qcow2Bytes(64 << 10)),
		Format: provider.FormatQCOW2, Firmware: provider.FirmwareUEFI,
	}
}

// cacheTestImage puts testImage into the host's pool, base and marker, as a transfer leaves them.
func cacheTestImage(t *testing.T, h *fakeHost) { cacheImage(t, h, testImage(t), qcow2Bytes(64<<10)) }

// cacheImage puts an image into the host's default pool and gives the name of its base.
func cacheImage(t *testing.T, h *fakeHost, img provider.KVMImage, content []byte) string {
	t.Helper()
	key, err := keyOf(img)
	if err != nil {
		t.Fatal(err)
	}
	base := key.newBase(testName, img.Format)
	h.addVolume(provider.DefaultPool, base, content)
	var path string
	h.withPool(provider.DefaultPool, func(p *fakePool) { path = p.pathOf(base) })
	makeOverlayIn(t, h, key.marker(), path)
	h.forget()
	return base
}

// makeOverlayIn makes a qcow2 overlay in the host's default pool.
func makeOverlayIn(t *testing.T, h *fakeHost, name, backing string) {
	t.Helper()
	doc, err := overlayVolumeXML(name, testVirtualSize, backing, provider.FormatQCOW2)
	if err != nil {
		t.Error(err)
		return
	}
	c := newFakeConn(h)
	defer func() { _ = c.Close() }()
	if _, err := c.StorageVolCreateXML(t.Context(), pool{Name: provider.DefaultPool}, doc); err != nil {
		t.Errorf("make %s: %v", name, err)
	}
}
