package egressctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// maxInput is the most that is read from a file of the user's.
const maxInput = 1 << 20

// readFile reads a file of the user's; "-" is stdin, where there is one. A stdin that nobody writes to
// holds it up no longer than ctx.
func readFile(ctx context.Context, path string, stdin io.Reader) ([]byte, error) {
	if path == "-" && stdin != nil {
		return readUntil(ctx, stdin)
	}
	return readPath(path)
}

// readPath reads the file of that name, - included.
func readPath(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	data, err := readLimited(f, path)
	return data, errors.Join(err, f.Close())
}

// readUntil leaves a read that is under way behind when ctx ends: nothing can end it but its writer, and
// the program is about to.
func readUntil(ctx context.Context, stdin io.Reader) ([]byte, error) {
	type result struct {
		data []byte
		err  error
	}
	read := make(chan result, 1)
	go func() {
		data, err := readLimited(stdin, "standard input")
		read <- result{data, err}
	}()
	select {
	case r := <-read:
		return r.data, r.err
	case <-ctx.Done():
		return nil, fmt.Errorf("read standard input: %w", ctx.Err())
	}
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
