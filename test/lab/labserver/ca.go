package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"flag"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// caLife is short on purpose: the lab makes a new authority when it starts from nothing.
const caLife = 90 * 24 * time.Hour

func caCertFile(dir string) string     { return filepath.Join(dir, "ca.pem") }
func originCertFile(dir string) string { return filepath.Join(dir, "origin.pem") }
func originKeyFile(dir string) string  { return filepath.Join(dir, "origin.key") }

func runCA(args []string) error {
	flags := flag.NewFlagSet("ca", flag.ContinueOnError)
	dir := flags.String("dir", "", "directory to write ca.pem, origin.pem and origin.key to")
	names := flags.String("names", "origin.lab.test", "the origin's names and addresses, comma separated")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return writeCA(*dir, strings.Split(*names, ","), time.Now())
}

// writeCA makes an authority, signs one certificate for names with it, and writes both into dir. The
// authority's own key is not kept, so it can sign nothing else.
func writeCA(dir string, names []string, now time.Time) error {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("making the authority's key: %w", err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("making the origin's key: %w", err)
	}
	ca := certificate("lab.test authority", 1, now)
	ca.IsCA, ca.BasicConstraintsValid = true, true
	ca.KeyUsage = x509.KeyUsageCertSign
	leaf := certificate("origin.lab.test", 2, now)
	leaf.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			leaf.IPAddresses = append(leaf.IPAddresses, ip)
		} else {
			leaf.DNSNames = append(leaf.DNSNames, name)
		}
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	if err != nil {
		return fmt.Errorf("signing the authority's certificate: %w", err)
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, ca, key.Public(), caKey)
	if err != nil {
		return fmt.Errorf("signing the origin's certificate: %w", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encoding the origin's key: %w", err)
	}
	if err := writePEM(originKeyFile(dir), "PRIVATE KEY", keyDER, 0o600); err != nil {
		return err
	}
	if err := writePEM(originCertFile(dir), "CERTIFICATE", leafDER, 0o644); err != nil {
		return err
	}
	return writePEM(caCertFile(dir), "CERTIFICATE", caDER, 0o644)
}

func certificate(name string, serial int64, now time.Time) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		Subject:      pkix.Name{CommonName: name},
		// Guests' clocks may be behind this machine's.
		NotBefore: now.Add(-24 * time.Hour),
		NotAfter:  now.Add(caLife),
	}
}

func writePEM(path, kind string, der []byte, mode os.FileMode) error {
	data := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	if err := os.WriteFile(path, data, mode); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}
