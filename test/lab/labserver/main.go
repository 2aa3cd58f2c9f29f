// Command labserver holds the lab's two HTTP servers and its certificate authority: what the images come
// from, with the faults that tests want, and the origin that says who asked.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

const usage = `Usage: labserver COMMAND [flags]

  ca       write a certificate authority and the origin's certificate into a directory
  images   serve a directory's files, and faults under /fault/
  origin   answer every request with what was seen of the client

labserver COMMAND -h lists a command's flags.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "labserver: %v\n", err)
		os.Exit(1)
	}
}

// run dispatches to a command. It returns when the command is done or ctx is.
func run(ctx context.Context, args []string, out io.Writer) error {
	if len(args) == 0 {
		_, _ = io.WriteString(out, usage) // the error below says the same
		return errors.New("no command given: one of ca, images, origin")
	}
	switch args[0] {
	case "ca":
		return runCA(args[1:])
	case "images":
		return runImages(ctx, args[1:])
	case "origin":
		return runOrigin(ctx, args[1:])
	case "help", "-h", "--help":
		_, err := io.WriteString(out, usage)
		return err
	default:
		return fmt.Errorf("no command %q: one of ca, images, origin", args[0])
	}
}
