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
	"runnel/tools/process"
	"runnel/tools/remote"
)

// splitServer splits the arguments of a command at "--": the command of a server comes after it. Where --url names the server, that is
// what stands for it.
func (i *invocation) splitServer(cmd *cobra.Command, args []string) (own, server []string, err error) {
	n := cmd.ArgsLenAtDash()
	if cmd.Flags().Lookup("url") != nil && n < 0 {
		i.url = cmp.Or(i.url, i.Getenv("RUNNEL_URL"))
	}
	switch {
	case n < 0 && i.url != "":
		return args, []string{"--url", i.url}, nil
	case n < 0 && (len(i.headerLines) > 0 || i.headerFile != ""):
		return nil, nil, misuse(cmd, "--header and --header-file go with --url")
	case n < 0:
		return args, nil, nil
	case i.url != "":
		return nil, nil, misuse(cmd, "a server is named by --url or by its command after --, not by both")
	case n == len(args):
		return nil, nil, misuse(cmd, "no server after --")
	}
	return args[:n], args[n:], nil
}

// onlyServer returns the command of a server, or --url and its URL, where a command takes nothing else.
func (i *invocation) onlyServer(cmd *cobra.Command, args []string) ([]string, error) {
	own, server, err := i.splitServer(cmd, args)
	if err == nil {
		err = noArguments(cmd, own)
	}
	if err == nil && len(server) == 0 {
		err = misuse(cmd, "%s: which server? Its command comes after --, or --url names it", cmd.CommandPath())
	}
	return server, err
}

// dialPatience is how long a server may take to answer before the user is told: npx may have to fetch it first.
const dialPatience = 5 * time.Second

// dial connects to the server after "--" or at --url or, without one, to what these flags and this config serve, in process.
// close ends it, and returns when nothing of it is left.
func (i *invocation) dial(cmd *cobra.Command, server []string, o rpc.DialOptions) (client *rpc.Client, close func(), err error) {
	if err := i.readEnvironmentQuietly(cmd); err != nil {
		return nil, nil, err
	}
	o.Info = mcp.Implementation{Name: "runnel", Version: serve.Version()}
	o.Log = i.Logger()
	if len(server) > 0 {
		for _, flag := range []string{"config", "tool", "selftest", "notify"} {
			if i.Options.From[flag] == "--"+flag {
				return nil, nil, misuse(cmd, "--%s says what runnel itself serves: it does not go with another server", flag)
			}
		}
		name, dial := server[0], rpc.Dial
		if server[0] == "--url" { // i.url may be the variable's, which a server after -- goes before
			at, err := i.remote()
			if err != nil {
				return nil, nil, misuse(cmd, "%w", err)
			}
			name = "the server"
			dial = func(ctx context.Context, o rpc.DialOptions) (*rpc.Client, error) { return httpclient.Dial(ctx, at, o) }
		} else {
			process.TieChildren()
			o.Command, o.Env, o.Stderr = server, i.Env, i.Stderr
			o.EndGroup = func(pgid int) { process.EndFamily(pgid, "") }
		}
		var wrote atomic.Pointer[string]
		o.OnGarbage = func(line []byte) { wrote.Store(new(term.Shorten(term.Printable(string(line))))) }
		defer time.AfterFunc(dialPatience, func() {
			if cmd.Context().Err() != nil { // it is being ended
				return
			}
			text := "runnel: " + name + " has not answered server/discover or initialize yet"
			if last := wrote.Load(); last != nil {
				text += "; the last line that it wrote is not a message: " + *last
			}
			i.Say(zerolog.WarnLevel, text)
		}).Stop()
		if client, err = dial(cmd.Context(), o); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		return client, func() { _ = client.Close() }, nil // how the server ends does not matter
	}
	return i.Dial(cmd.Context(), o)
}

// askForTool connects to a server as dial does, and asks for one tool.
func (i *invocation) askForTool(cmd *cobra.Command, name string, server []string, version string) (*mcp.Tool, error) {
	i.Only = name
	list, err := i.listTools(cmd, server, version)
	if err != nil {
		return nil, err
	}
	return findTool(list, name, server)
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

// listTools connects to a server as dial does, and asks for its tools.
func (i *invocation) listTools(cmd *cobra.Command, server []string, version string) ([]mcp.Tool, error) {
	// A client with tasks wants no fallback tools in the list.
	canTasks := mcp.ClientCapabilities{Tasks: &mcp.ClientTasks{}, Extensions: map[string]any{mcp.ExtensionTasks: struct{}{}}}
	client, disconnect, err := i.dial(cmd, server, rpc.DialOptions{Version: version, Capabilities: canTasks})
	if err != nil {
		return nil, err
	}
	defer disconnect()
	return remote.ListTools(cmd.Context(), client)
}
