package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"strings"
)

func runImages(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("images", flag.ContinueOnError)
	address := flags.String("address", "", "host:port to listen on")
	dirs := dirFlag{}
	flags.Var(dirs, "dir", "NAME=DIRECTORY to serve as /NAME/; may be given again")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return serve(ctx, site{addr: *address, handler: imagesHandler(dirs)})
}

// dirFlag maps a URL's first path element to the directory behind it.
type dirFlag map[string]string

func (d dirFlag) String() string { return fmt.Sprint(map[string]string(d)) }

func (d dirFlag) Set(value string) error {
	name, dir, ok := strings.Cut(value, "=")
	if !ok || name == "" || name == "fault" || dir == "" {
		return fmt.Errorf("%q is not NAME=DIRECTORY", value)
	}
	d[name] = dir
	return nil
}

// imagesHandler serves each directory's files with Content-Length and Range, and under /fault/ the same
// files with something wrong (see faults.go).
func imagesHandler(dirs dirFlag) http.Handler {
	mux := http.NewServeMux()
	for name, dir := range dirs {
		prefix := "/" + name + "/"
		mux.Handle(prefix, http.StripPrefix(prefix, http.FileServerFS(filesOnly{os.DirFS(dir)})))
	}
	addFaults(mux, dirs)
	return mux
}
