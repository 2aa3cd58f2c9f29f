// Command cmd runs a control plane until it is told to end (SIGINT or SIGTERM), and writes an
// administrator's kubeconfig where its first argument says. The demo uses it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"gitea.home.hrajfrisbee.cz/kacerr/egress-proxies-operator/test/controlplane"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: controlplane KUBECONFIG")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:gocritic // stop has nothing left to do
	}
}

// run writes the kubeconfig last: its presence says that the control plane answers.
func run(ctx context.Context, kubeconfig string) error {
	plane, err := controlplane.Start(context.WithoutCancel(ctx), controlplane.Options{ControllerManager: true, Log: os.Stderr})
	if err != nil {
		return err
	}
	temporary := kubeconfig + ".new"
	err = os.WriteFile(temporary, plane.Kubeconfig, 0o600)
	if err == nil {
		err = os.Rename(temporary, kubeconfig)
	}
	if err == nil {
		fmt.Println("the control plane answers at", plane.Config.Host)
		<-ctx.Done()
	}
	return errors.Join(err, plane.Stop(), os.Remove(kubeconfig))
}
