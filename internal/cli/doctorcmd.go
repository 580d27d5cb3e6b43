package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"runnel/internal/hosts"
	"runnel/internal/serve"
	"runnel/internal/term"
	"runnel/rpc/mcp"
	"runnel/tools"
	"runnel/tools/command"
	"runnel/tools/config"
	"runnel/tools/process"
	"runnel/tools/sandbox"
	"runnel/tools/upstream"
)

// doctorCommand is "runnel doctor".
func (i *invocation) doctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor [HOST... | -- SERVER [ARGUMENT...] | --url URL]",
		Short: "Check that runnel can work here: config, commands, other servers, state, a session",
		Long: `Checks the config file and the state, looks for the commands of the tools, starts each server under "upstreams" and shows its answer, and
holds a short session with itself in each era of the protocol. Give it the flags that the host gives runnel, and it checks what the host
would get. The exit code is 1 if something is wrong.

With a HOST, such as claude-code, it starts runnel as that host's file says (see runnel install).

With another server, by its command after -- or its --url, it checks that server only, in each era of the protocol.

What a host can do is in the record that "runnel trace" writes of its session.`,
		Example: `  runnel doctor
  runnel doctor --config runnel.yaml

  # would these hosts start runnel?
  runnel doctor claude-code codex

  # does another server start, and which versions of the protocol does it speak?
  runnel doctor -- npx -y @modelcontextprotocol/server-everything
  runnel doctor --url https://mcp.example.com/mcp --header 'Authorization: Bearer ${TOKEN}'`,
		ValidArgsFunction: completeHosts,
		RunE: func(cmd *cobra.Command, args []string) error {
			hosts, err := i.splitServer(cmd, args)
			if err == nil {
				err = checkHosts(cmd, hosts)
			}
			switch {
			case err != nil:
				return err
			case len(hosts) > 0 && !i.target.isSelf():
				return misuse(cmd, "runnel doctor: it checks hosts or a server, not both")
			case len(hosts) > 0:
				return i.doctorInstalled(cmd.Context(), hosts)
			case !i.target.isSelf():
				return i.doctorServer(cmd)
			}
			return i.doctor(cmd)
		},
	}
	cmd.Flags().SortFlags = false
	i.target.addFlags(cmd.Flags())
	cmd.Flags().Lookup("url").Usage = "check only the server at this `URL`, over Streamable HTTP"
	cmd.Flags().AddFlagSet(i.flags)
	return cmd
}

func (i *invocation) doctor(cmd *cobra.Command) error {
	d := &diagnosis{i: i}
	d.fine("version", "runnel %s", serve.Version())
	conf, file, left, err := i.ReadConfigs(cmd.Context())
	defer i.Notices.Close()
	if left != nil {
		d.bad("config", "%v", left)
	}
	var set *upstream.Set
	var count int
	var mistakes error
	if conf != nil {
		set, count, mistakes = i.Registry(conf)
	}
	inFile := mistakes != nil && file != "" && strings.HasPrefix(mistakes.Error(), file+":")
	switch {
	case err != nil:
		d.bad("config", "%v", err)
	case inFile:
		d.bad("config", "%v", mistakes)
	case file == "" && left != nil: // said above
	case file == "":
		d.fine("config", "no file; looked for %s", strings.Join(config.Places(i.Getenv), ", "))
	default:
		d.fine("config", "%s", file)
	}
	if conf != nil {
		d.programs(set.Tools.Tools()) // even if the config has mistakes elsewhere
		d.upstreams(cmd.Context(), conf)
		if program, err := process.ThisProgram(); d.sandboxed && err == nil {
			d.fine("sandbox", "%s", sandbox.Probe(program))
		}
		switch {
		case inFile:
		case mistakes != nil:
			d.bad("tools", "%v", mistakes)
		case count+len(conf.Upstreams) == 0 && left != nil: // they are in the file that is left out
		case count+len(conf.Upstreams) == 0:
			d.fine("tools", "none: name some with --tool, or let runnel init propose a config file")
		default:
			d.fine("tools", "%d%s", count, andServers(conf))
		}
	}
	if conf != nil && len(conf.Secrets.Env)+len(conf.Secrets.Patterns) > 0 {
		if words := config.UnsetSecrets(i.Unset); words != "" {
			d.bad("secrets", "%s", words)
		} else {
			d.fine("secrets", "%s and %s", term.Count(len(conf.Secrets.Env), "variable"), term.Count(len(conf.Secrets.Patterns), "pattern"))
		}
	}
	if rules := i.Notices.Rules(); rules != nil {
		d.check("notices", rules.Check(), "their programs are here")
	}
	err = tryWriting(os.TempDir())
	if err != nil {
		err = fmt.Errorf("%w; TMPDIR names another directory", err)
	}
	d.check("temporary files", err, "%s", os.TempDir())
	if conf != nil {
		d.state(cmd.Context(), conf)
		d.limits(conf)
	}
	for _, h := range hosts.Table {
		d.installed(cmd.Context(), h, false)
	}
	for _, version := range []string{mcp.NewestHandshake().Name, ""} {
		said, err := i.trySession(cmd.Context(), version)
		d.check("session, "+cmp.Or(version, "stateless era"), err, "%s", said)
	}
	return d.verdict()
}

// programs looks for the programs that the tools start. The registry reports everything else that is wrong
// with them.
func (d *diagnosis) programs(list []tools.Tool) {
	if _, err := process.ThisProgram(); err != nil {
		d.bad("commands", "none can be started: %v", err)
	}
	for _, tool := range list {
		c, ok := tool.(*command.Command)
		if !ok {
			continue
		}
		if err := c.CheckSandbox(); err != nil {
			d.bad("tool "+c.Describe().Name, "%v", err)
		}
		d.sandboxed = d.sandboxed || c.Sandboxed()
		if found, err := c.Program(); found != "" || err != nil { // else it is known only at a call
			d.check("tool "+c.Describe().Name, err, "%s", found)
		}
	}
}

// upstreams starts the other servers, all at once, and shows what each answers.
func (d *diagnosis) upstreams(ctx context.Context, conf *config.Config) {
	list, _ := upstream.Servers(conf, d.i.ServersBase(conf), zerolog.Nop()) // the registry reports the errors
	probed, errs := make([]upstream.Probed, len(list)), make([]error, len(list))
	var wg sync.WaitGroup
	for n, u := range list {
		wg.Go(func() { probed[n], errs[n] = u.Probe(ctx, checkTime) })
	}
	wg.Wait()
	for n, u := range list {
		p := probed[n]
		d.sandboxed = d.sandboxed || u.Sandboxed()
		file := ""
		if dir, err := conf.StateDir(d.i.Getenv); err == nil && !conf.State.IsURL() && !conf.State.InMemory() {
			file = u.Diary(dir)
		}
		// A server may start well, and end in the middle of its work: hosts show neither that nor what it
		// writes.
		if ends, last := upstream.Ends(file, time.Now().Add(-time.Hour)); ends > 1 && errs[n] == nil {
			errs[n] = fmt.Errorf("it starts, but has ended %s in the last hour, the last time: %s\nwhat it wrote is in %s", term.Count(ends, "time"), term.Printable(last), file)
		} else if _, err := os.Stat(file); err == nil && errs[n] != nil {
			errs[n] = fmt.Errorf("%w\nwhat it wrote is in %s", errs[n], file)
		}
		d.check("upstream "+u.Name(), errs[n], "%s, protocol %s, %s, %d ms", term.Printable(strings.TrimSpace(p.Server.Name+" "+p.Server.Version)), p.Protocol, term.Count(p.Tools, "tool"), p.After.Milliseconds())
	}
}
