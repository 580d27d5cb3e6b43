package serve

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime/debug"
	"sync"

	httpserver "runnel/rpc/http"
	"runnel/tools/config"
	"runnel/tools/notify"
	"runnel/tools/process"
	"runnel/tools/secrets"
)

// Setup is what a server is made from: its environment, and its flags and variables.
type Setup struct {
	Env            []string // "NAME=value"
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Hangups        <-chan os.Signal // SIGHUP; nil = none comes

	Options options

	Wrapped     *config.Upstream // the server that runnel stands before; nil = none
	Detach      string           // the tool whose calls are detached, whatever the config says
	Only        string           // the only tool that is wanted in this process; "" = all
	NoUpstreams bool             // start no other server: a shell waits for completions
	Watches     bool             // the config file is watched

	view      *liveView          // the live view; nil: it is not served
	seen      os.FileInfo        // the config file's info from before the last read; nil if it did not exist
	front     httpserver.Options // who may come in over HTTP
	owners    *owners            // who does; nil = HTTP is not served
	untrusted *untrusted         // why the config file in the current directory was left out, if it was
	Upstreams int                // how many the config has, once its registry is made
	Classes   int                // of workers, whose tools are listed, likewise

	secrets *secrets.Current // what the registry made last must not show; nil before the first config
	Unset   []string         // names of secrets that have no value, once the registry is made

	Notices *notify.Notices // tell people of tasks that have ended; nil before the first config
}

var errHangup = errors.New("the terminal has gone (SIGHUP)")

// UntilHangup returns a context that ends with ctx or with SIGHUP, for a command that does not read its config again.
func (s *Setup) UntilHangup(ctx context.Context) context.Context {
	if s.Hangups == nil {
		return ctx
	}
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-s.Hangups:
			cancel(errHangup)
		case <-ctx.Done():
		}
	}()
	return ctx
}

// Trust is what the user of these variables trusts.
func (s *Setup) Trust() Trust { return Trust{s.Getenv} }

// Getenv returns the value of a variable, "" if it is not set. It stands for os.Getenv, since a test has an environment of its own.
func (s *Setup) Getenv(name string) string {
	value, _ := process.LookupEnv(s.Env, name)
	return value
}

// The build of a release sets these (make packages); they are "" in other programs.
var version, Commit, Date string

// Version is runnel's version: that of a package, or the module's; "devel" if the build did not note one.
var Version = sync.OnceValue(func() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
})
