package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"runnel/internal/term"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tools"
	"runnel/tools/process"
)

// splitServer takes the command of a server, which stands behind "--", from the arguments of a command.
func splitServer(cmd *cobra.Command, args []string) (own, server []string, err error) {
	n := cmd.ArgsLenAtDash()
	switch {
	case n < 0:
		return args, nil, nil
	case n == len(args):
		return nil, nil, &usageError{errors.New("no server behind --"), hint(cmd)}
	}
	return args[:n], args[n:], nil
}

// dialPatience is how long a server may take to answer at all without a word: npx may have to fetch it first.
const dialPatience = 5 * time.Second

// dial connects to the server of a command: the one behind "--" or, without one, what these flags and this config serve,
// in process. close ends it, and returns when nothing of it is left.
func (i *invocation) dial(cmd *cobra.Command, server []string, o rpc.DialOptions) (client *rpc.Client, close func(), err error) {
	if err := i.readEnvironmentQuietly(cmd); err != nil {
		return nil, nil, err
	}
	o.Info = mcp.Implementation{Name: "runnel", Version: version()}
	o.Log = i.logger()
	if len(server) > 0 {
		for _, flag := range []string{"config", "tool", "selftest"} {
			if i.options.from[flag] == "--"+flag {
				return nil, nil, &usageError{fmt.Errorf("--%s says what runnel itself serves: it does not go with a server behind --", flag), hint(cmd)}
			}
		}
		o.Command, o.Env, o.Stderr = server, i.env, i.stderr
		o.EndGroup = func(pgid int) { process.EndFamily(pgid, "") }
		var wrote atomic.Pointer[string]
		o.OnGarbage = func(line []byte) { wrote.Store(new(term.OneLine(term.Printable(string(line))))) }
		defer time.AfterFunc(dialPatience, func() {
			if cmd.Context().Err() != nil { // it is being ended
				return
			}
			text := "runnel: " + server[0] + " has not answered server/discover or initialize yet"
			if last := wrote.Load(); last != nil {
				text += "; the last line that it wrote is no message: " + *last
			}
			i.say(zerolog.WarnLevel, text)
		}).Stop()
		if client, err = rpc.Dial(cmd.Context(), o); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", server[0], err)
		}
		return client, func() { _ = client.Close() }, nil // how it ends is its own affair
	}
	wait, err := i.serveInProcess(cmd.Context(), &o)
	if err != nil {
		return nil, nil, err
	}
	if client, err = rpc.Dial(cmd.Context(), o); err != nil {
		_ = o.In.Close()
		wait()
		return nil, nil, err
	}
	return client, func() { _ = client.Close(); wait() }, nil
}

// serveInProcess serves to o.In and o.Out. It goes on until its input ends: what ends the command must not end it first.
func (i *invocation) serveInProcess(ctx context.Context, o *rpc.DialOptions) (wait func(), err error) {
	config, _, err := i.loadConfig(ctx)
	if err != nil {
		return nil, err
	}
	if i.options.from["sync-wait"] == "" {
		config.Tasks.SyncWait = 0 // nobody here gives up on a long call
	}
	set, _, err := i.registry(config)
	if err != nil {
		return nil, err
	}
	store, err := i.store(config, o.Log)
	if err != nil {
		return nil, err
	}
	return i.connectInProcess(ctx, o, config, set, store), nil
}

// connectInProcess serves a registry to o.In and o.Out, which it makes. It closes the store in the end.
func (i *invocation) connectInProcess(ctx context.Context, o *rpc.DialOptions, config *tools.Config, set *tools.UpstreamSet, store tasks.State) (wait func()) {
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	o.In, o.Out = toServer, fromServer
	inner := *i
	inner.stdin, inner.stdout = in, out
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err := inner.connect(context.WithoutCancel(ctx), config, set, store, o.Log)
		if closed := store.Close(); err == nil {
			err = closed
		}
		_ = out.CloseWithError(err) // nil: EOF
		_ = in.Close()
	}()
	return func() { <-ended }
}

// findTool finds a tool by its name, among those of runnel itself where no server is named.
func findTool(list []mcp.Tool, name string, server []string) (*mcp.Tool, error) {
	var names []string
	for n := range list {
		if list[n].Name == name {
			return &list[n], nil
		}
		names = append(names, list[n].Name)
	}
	switch {
	case len(names) == 0 && len(server) == 0:
		return nil, fmt.Errorf("there is no tool %q: name some with --tool or in a config file", name)
	case len(names) == 0:
		return nil, fmt.Errorf("there is no tool %q: the server has none", name)
	}
	err := didYouMean(fmt.Errorf("there is no tool %q", name), name, names)
	return nil, fmt.Errorf("%w; there are: %s", err, term.Printable(strings.Join(names, ", ")))
}
