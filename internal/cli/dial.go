package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"runnel/internal/serve"
	"runnel/internal/term"
	"runnel/rpc"
	httpclient "runnel/rpc/http/client"
	"runnel/rpc/mcp"
	"runnel/tools/config"
	"runnel/tools/process"
	"runnel/tools/remote"
)

// dialPatience is how long a server may take to answer before the user sees a warning: npx may have to
// download it first.
const dialPatience = 5 * time.Second

// dial connects to the server that the command line names or, without one, to what these flags and this
// config serve, in process. close ends it, and returns when nothing is left of it.
func (i *invocation) dial(cmd *cobra.Command,
	o rpc.DialOptions) (client *rpc.Client, close func(), err error) {
	o.Info = mcp.Implementation{Name: "runnel", Version: serve.Version()}
	o.Log = i.Logger()
	if i.target.isSelf() {
		return i.Dial(cmd.Context(), o)
	}
	for _, flag := range []string{"config", "tool", "selftest", "notify", "set"} {
		if i.Options.From[flag] == "--"+flag {
			return nil, nil, misuse(cmd,
				"--%s says what runnel itself serves: it does not go with another server", flag)
		}
	}
	name, dial, err := i.server(cmd)
	if err != nil {
		return nil, nil, err
	}
	var wrote atomic.Pointer[string]
	o.OnGarbage = func(line []byte) {
		wrote.Store(new("; the last line that it wrote is not a message: " +
			term.Shorten(term.Printable(string(line)))))
	}
	garbage := func() string { return *cmp.Or(wrote.Load(), new("")) }
	late := time.AfterFunc(dialPatience, func() {
		if cmd.Context().Err() == nil { // else it is being ended
			i.Say(zerolog.WarnLevel, "runnel: "+name+
				" has not answered server/discover or initialize yet"+garbage())
		}
	})
	client, err = dial(cmd.Context(), o)
	switch inTime := late.Stop(); {
	case err != nil && inTime:
		return nil, nil, fmt.Errorf("%s: %w%s", name, err, garbage())
	case err != nil:
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	return client, func() { _ = client.Close() }, nil // how the server ends does not matter
}

// dialer connects to a server.
type dialer func(context.Context, rpc.DialOptions) (*rpc.Client, error)

// server returns a name for the server that the command line names, and how to connect to it.
func (i *invocation) server(cmd *cobra.Command) (name string, dial dialer, err error) {
	if i.target.url != "" {
		at, err := i.remote(cmd)
		return "the server", func(ctx context.Context, o rpc.DialOptions) (*rpc.Client,
			error) {
			return httpclient.Dial(ctx, at, o)
		}, err
	}
	process.TieChildren()
	return i.target.command[0], func(ctx context.Context, o rpc.DialOptions) (*rpc.Client, error) {
		o.Command = i.target.command
		o.Env = i.Env
		o.Stderr = i.Stderr
		o.EndGroup = func(pgid int) { process.EndFamily(pgid, "") }
		return rpc.Dial(ctx, o)
	}, nil
}

// canTasks are the capabilities of a client that has tasks, so that a runnel lists no fallback tools.
var canTasks = mcp.ClientCapabilities{Tasks: &mcp.ClientTasks{},
	Extensions: map[string]any{mcp.ExtensionTasks: struct{}{}}}

// listTools connects to a server as dial does, and asks for its tools.
func (i *invocation) listTools(cmd *cobra.Command, version string) ([]mcp.Tool, error) {
	client, disconnect, err := i.dial(cmd, rpc.DialOptions{Version: version, Capabilities: canTasks})
	if err != nil {
		return nil, err
	}
	defer disconnect()
	return remote.ListTools(cmd.Context(), client)
}

// askForTool is listTools for one tool.
func (i *invocation) askForTool(cmd *cobra.Command, name, version string) (*mcp.Tool, error) {
	i.Only = name
	list, err := i.listTools(cmd, version)
	if err != nil {
		return nil, err
	}
	return i.findTool(list, name)
}

// findTool finds a tool by its name.
func (i *invocation) findTool(list []mcp.Tool, name string) (*mcp.Tool, error) {
	var names []string
	for n := range list {
		if list[n].Name == name {
			return &list[n], nil
		}
		names = append(names, list[n].Name)
	}
	err := fmt.Errorf("there is no tool %q", name)
	switch {
	case len(names) > 0:
		return nil, fmt.Errorf("%w; there are: %s", didYouMean(err, name, names),
			term.Printable(strings.Join(names, ", ")))
	case i.target.isSelf() && i.Untrusted():
		return nil, fmt.Errorf("%w, nor any other, while the project's %s is not used", err, config.FileName)
	case i.target.isSelf():
		return nil, fmt.Errorf("%w, nor any other: name one with --tool, or let runnel init propose a "+
			"runnel.yaml", err)
	}
	return nil, fmt.Errorf("%w: the server has none", err)
}
