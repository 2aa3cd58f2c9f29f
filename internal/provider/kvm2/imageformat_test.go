package kvm2

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/internal/provider"
)

// judgeBytes applies checkFormat to bytes as a transfer does.
func judgeBytes(content []byte, format string) (uint64, error) {
	return checkFormat(content[:min(len(content), headBytes)], uint64(len(content)), format)
}

// rawDisk is 64 KiB with the signature of a partition table.
func rawDisk(mods ...func([]byte)) []byte {
	data := make([]byte, 64<<10)
	data[510], data[511] = 0x55, 0xAA
	for _, mod := range mods {
		mod(data)
	}
	return data
}

func TestCheckFormat_table(t *testing.T) {
	at := func(offset int, text string) []byte {
		return rawDisk(func(d []byte) { copy(d[offset:], text) })
	}
	qcow2 := func(mods ...func([]byte)) []byte { return qcow2Bytes(64<<10, mods...) }
	cases := map[string]struct {
		reason  string
		content []byte
		format  string
		size    uint64
		text    string // of the error; "" for none
	}{
		"qcow2":              {"as declared", qcow2(), "qcow2", testVirtualSize, ""},
		"qcow2, version 2":   {"old, and fine", qcow2(func(h []byte) { h[7] = 2 }), "qcow2", testVirtualSize, ""},
		"raw":                {"its length is the disk's", rawDisk(), "raw", 64 << 10, ""},
		"qcow2 called raw":   {"the guest would see the header as its disk", qcow2(), "raw", 0, "say format: qcow2"},
		"raw called qcow2":   {"QEMU would refuse it", rawDisk(), "qcow2", 0, "say format: raw"},
		"raw without table":  {"no firmware boots it", make([]byte, 64<<10), "raw", 0, "no partition table"},
		"raw, short":         {"there is no sector", []byte("abc"), "raw", 0, "no partition table"},
		"empty":              {"there is nothing", nil, "qcow2", 0, "is empty"},
		"web page":           {"a login portal", []byte("\xef\xbb\xbf\r\n <!DocType HTML><html>"), "qcow2", 0, "web page"},
		"xz":                 {"it was not unpacked", []byte("\xfd7zXZ\x00rest"), "qcow2", 0, "xz"},
		"gzip":               {"it was not unpacked", []byte("\x1f\x8b\x08rest"), "raw", 0, "gzip"},
		"zstd":               {"it was not unpacked", []byte("\x28\xb5\x2f\xfdrest"), "qcow2", 0, "zstd"},
		"bzip2":              {"it was not unpacked", []byte("BZh91AY"), "qcow2", 0, "bzip2"},
		"zip":                {"it was not unpacked", []byte("PK\x03\x04rest"), "qcow2", 0, "zip"},
		"tar":                {"it was not unpacked", at(257, "ustar"), "raw", 0, "tar"},
		"VMDK":               {"another format", []byte("KDMVrest"), "qcow2", 0, "VMDK"},
		"VHDX":               {"another format", []byte("vhdxfile"), "raw", 0, "VHDX"},
		"ISO":                {"a hybrid one has a partition table too", at(32769, "CD001"), "raw", 0, "ISO 9660"},
		"backing file":       {"QEMU would open a file of the host", qcow2(func(h []byte) { h[15] = 112 }), "qcow2", 0, "backing file"},
		"external data file": {"QEMU would open a file of the host", qcow2(func(h []byte) { h[79] = 4 }), "qcow2", 0, "another file"},
		"corrupt":            {"QEMU refuses to write to it", qcow2(func(h []byte) { h[79] = 2 }), "qcow2", 0, "corrupt"},
		"dirty":              {"a base is only read", qcow2(func(h []byte) { h[79] = 1 }), "qcow2", testVirtualSize, ""},
		"unknown feature":    {"nobody knows what it leads to", qcow2(func(h []byte) { h[72] = 1 }), "qcow2", 0, "not known"},
		"version 4":          {"nobody knows its header", qcow2(func(h []byte) { h[7] = 4 }), "qcow2", 0, "version 4"},
		"encrypted":          {"there is no key", qcow2(func(h []byte) { h[35] = 2 }), "qcow2", 0, "encrypted"},
		"no size":            {"there is no disk", qcow2(func(h []byte) { clear(h[24:32]) }), "qcow2", 0, "no size"},
		"odd clusters":       {"the header is damaged", qcow2(func(h []byte) { h[23] = 63 }), "qcow2", 0, "damaged"},
		"tables beyond":      {"it is cut off", qcow2(func(h []byte) { h[44] = 1 }), "qcow2", 0, "cut off"},
		"huge tables":        {"no sum may overflow", qcow2(func(h []byte) { copy(h[36:48], strings.Repeat("\xff", 12)) }), "qcow2", 0, "cut off"},
		"header only":        {"it is cut off", qcow2()[:8], "qcow2", 0, "header"},
		"version 3, short":   {"it is cut off", qcow2()[:80], "qcow2", 0, "cut off"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			size, err := judgeBytes(tc.content, tc.format)
			if tc.text == "" {
				if err != nil || size != tc.size {
					t.Errorf("%s: size is %d, error %v, want %d", tc.reason, size, err, tc.size)
				}
				return
			}
			wantImageErr(t, err, provider.ErrPermanent, provider.ReasonImageInvalid, tc.text)
		})
	}
}

// What qemu-img itself makes is judged as it should be.
func TestCheckFormat_agreesWithQEMU(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	tool(t, "qemu-img", "create", "-q", "-f", "qcow2", file("base"), "1G")
	cases := map[string]struct {
		args []string
		text string
	}{
		"plain":         {[]string{"create", "-q", "-f", "qcow2", "OUT", "1G"}, ""},
		"version 2":     {[]string{"create", "-q", "-f", "qcow2", "-o", "compat=0.10", "OUT", "1G"}, ""},
		"extended L2":   {[]string{"create", "-q", "-f", "qcow2", "-o", "extended_l2=on,cluster_size=128k", "OUT", "1G"}, ""},
		"zstd inside":   {[]string{"convert", "-q", "-O", "qcow2", "-c", "-o", "compression_type=zstd", file("base"), "OUT"}, ""},
		"lazy counts":   {[]string{"create", "-q", "-f", "qcow2", "-o", "lazy_refcounts=on", "OUT", "1G"}, ""},
		"overlay":       {[]string{"create", "-q", "-f", "qcow2", "-b", file("base"), "-F", "qcow2", "OUT"}, "backing file"},
		"external data": {[]string{"create", "-q", "-f", "qcow2", "-o", "data_file=" + file("data"), "OUT", "1G"}, "another file"},
		"QED":           {[]string{"create", "-q", "-f", "qed", "OUT", "1G"}, "QED"},
		"VMDK":          {[]string{"create", "-q", "-f", "vmdk", "OUT", "1G"}, "VMDK"},
		"VDI":           {[]string{"create", "-q", "-f", "vdi", "OUT", "1G"}, "VirtualBox"},
		"VHDX":          {[]string{"create", "-q", "-f", "vhdx", "OUT", "1G"}, "VHDX"},
		"VHD":           {[]string{"create", "-q", "-f", "vpc", "OUT", "1G"}, "VHD"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			out := file(strings.ReplaceAll(name, " ", "-"))
			args := make([]string, len(tc.args))
			for i, a := range tc.args {
				args[i] = strings.Replace(a, "OUT", out, 1)
			}
			tool(t, "qemu-img", args...)
			f, err := os.Open(out)
			if err != nil {
				t.Fatal(err)
			}
			content, err := io.ReadAll(io.LimitReader(f, 1<<20))
			info, statErr := f.Stat()
			if err := errors.Join(err, statErr, f.Close()); err != nil {
				t.Fatal(err)
			}
			size, err := checkFormat(content[:min(len(content), headBytes)], uint64(info.Size()), "qcow2")
			if tc.text == "" {
				if err != nil || size != 1<<30 {
					t.Errorf("size is %d, error %v, want 1 GiB", size, err)
				}
				return
			}
			wantImageErr(t, err, provider.ErrPermanent, provider.ReasonImageInvalid, tc.text)
		})
	}
}

// A server chooses the bytes.
func FuzzCheckFormat(f *testing.F) {
	f.Add(qcow2Bytes(4096), "qcow2")
	f.Add(rawDisk(), "raw")
	f.Fuzz(func(t *testing.T, content []byte, format string) {
		if size, err := judgeBytes(content, format); err == nil && size == 0 {
			t.Error("a disk of no size was accepted")
		}
	})
}
