package egressctl

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// maxInput is the most that is read from a file of the user's.
const maxInput = 1 << 20

// readFile reads a file of the user's; "-" is stdin, where there is one.
func readFile(path string, stdin io.Reader) ([]byte, error) {
	if path == "-" && stdin != nil {
		return readLimited(stdin, "standard input")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	data, err := readLimited(f, path)
	return data, errors.Join(err, f.Close())
}

func readLimited(r io.Reader, name string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxInput+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if len(data) > maxInput {
		return nil, fmt.Errorf("%s is larger than 1 MiB", name)
	}
	return data, nil
}
