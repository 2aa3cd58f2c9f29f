package kvm2

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// errNoShell: the account may run no command on the host.
var errNoShell = errors.New("the SSH user may run no command on the host")

// HostTime asks the shell of the account.
func (c *libvirtConn) HostTime(ctx context.Context) (time.Time, error) {
	if c.shell == nil {
		return time.Time{}, errNoShell
	}
	return call(ctx, c, c.short("HostTime"), func() (time.Time, error) {
		out, err := c.shell("date +%s")
		if err != nil {
			return time.Time{}, err
		}
		at, ok := parseHostTime(string(out))
		if !ok {
			return time.Time{}, errNoShell // a forced command answered in its place
		}
		return at, nil
	})
}

func (o *observed) HostTime(ctx context.Context) (time.Time, error) {
	return watched(ctx, o, "HostTime", nil, o.conn.HostTime)
}

// maxAnswer is as much of a command's output as is read.
const maxAnswer = 256

// run runs a command in the host's shell and gives the start of its output. It blocks until the command
// or the link ends. A host that runs no commands, and a command that fails, are errNoShell.
func (l *sshLink) run(command string) ([]byte, error) {
	session, err := l.client.NewSession()
	if err != nil {
		return nil, noShell(err)
	}
	defer func() { _ = session.Close() }() // its end was seen, or does not matter
	out, err := session.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := session.Start(command); err != nil {
		return nil, noShell(err)
	}
	answer, err := io.ReadAll(io.LimitReader(out, maxAnswer))
	if err != nil {
		return nil, err
	}
	if len(answer) == maxAnswer { // it may go on for ever
		return nil, errNoShell
	}
	if err := session.Wait(); err != nil {
		return nil, noShell(err)
	}
	return answer, nil
}

// noShell tells a refusal from a connection that broke. The library has no error of its own for a host
// that refuses the command's request, only the text "ssh: command ... failed".
func noShell(err error) error {
	var exit *ssh.ExitError
	var missing *ssh.ExitMissingError
	var refused *ssh.OpenChannelError
	if errors.As(err, &exit) || errors.As(err, &missing) || errors.As(err, &refused) || strings.HasSuffix(err.Error(), " failed") {
		return errNoShell
	}
	return fmt.Errorf("run a command on the host: %w", err)
}
