package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"runnel/internal/hosts"
	"runnel/internal/serve"
	"runnel/internal/system"
	"runnel/internal/term"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/sqlite"
	"runnel/tools"
	"runnel/tools/command"
	"runnel/tools/config"
	"runnel/tools/process"
	"runnel/tools/remote"
	"runnel/tools/selftest"
	"runnel/tools/upstream"
)

// checkTime is how long one of doctor's sessions may take, and a server to start. A test shortens it.
var checkTime = 30 * time.Second

// doctorCommand is "runnel doctor".
func (i *invocation) doctorCommand() *cobra.Command {
	var host bool
	cmd := &cobra.Command{
		Use:   "doctor [HOST...]",
		Short: "Check that runnel can work here: config, commands, other servers, state, a session",
		Long: `Checks the config file and the state directory, looks for the commands of the tools, starts each server under "upstreams" and says
what it answers, and holds a short session with itself in each era of the protocol. Give it the same flags as the host gives runnel, and it sees what
the host would get. The exit code is 1 if something is wrong.

With a HOST, such as claude-code, it starts runnel as that host's file says, and says what came of it (see runnel install).

With --host it serves one tool, doctor, to the host that starts it. The tool says what that host can do: tasks, partial output,
progress, questions. The same goes to stderr, which most hosts keep in a log.

With --url it only asks the server there, in each era of the protocol.`,
		Example: `  runnel doctor
  runnel doctor --config runnel.yaml

  # would these hosts start runnel?
  runnel doctor claude-code codex

  runnel doctor --url https://mcp.example.com/mcp --header 'Authorization: Bearer ${TOKEN}'

  # what can a host do? In its config, for a while, instead of the command that it starts:
  "command": "/usr/local/bin/runnel", "args": ["doctor", "--host"]`,
		ValidArgsFunction: completeHosts,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				if err := (&entryFlags{name: "runnel"}).check(cmd, args); err != nil {
					return err
				}
				if err := i.readEnvironment(cmd); err != nil {
					return err
				}
				return i.doctorInstalled(cmd.Context(), args)
			}
			switch {
			case host && term.IsTerminal(i.Stdin):
				return misuse(cmd, "runnel doctor --host speaks MCP with the host that starts it, and this is a terminal: put it into the host's config as the examples show, or leave --host out to check what is here")
			case host:
				return i.doctorHost(cmd)
			}
			if i.url = cmp.Or(i.url, i.Getenv("RUNNEL_URL")); i.url != "" {
				return i.doctorURL(cmd)
			}
			return i.doctor(cmd, args)
		},
	}
	cmd.Flags().SortFlags = false
	i.addURLFlags(cmd.Flags())
	cmd.Flags().BoolVar(&host, "host", false, "serve the host that starts this, and say what it can do")
	cmd.Flags().AddFlagSet(i.flags)
	return cmd
}

// diagnosis collects what doctor finds.
type diagnosis struct {
	i     *invocation
	wrong int
	err   error // from writing to stdout
}

func (d *diagnosis) fine(what, format string, args ...any) { d.print("ok   ", what, format, args...) }

func (d *diagnosis) bad(what, format string, args ...any) {
	d.wrong++
	d.print("WRONG", what, format, args...)
}

func (d *diagnosis) print(verdict, what, format string, args ...any) {
	text := strings.ReplaceAll(strings.TrimSpace(term.PrintableLines(fmt.Sprintf(format, args...))), "\n", "\n        ")
	if _, err := fmt.Fprintf(d.i.Stdout, "%s  %s: %s\n", verdict, what, text); !errors.Is(err, syscall.EPIPE) { // a reader that has left wants no more
		d.err = cmp.Or(d.err, err)
	}
}

func (i *invocation) doctor(cmd *cobra.Command, _ []string) error {
	if err := i.readEnvironment(cmd); err != nil {
		return err
	}
	d := &diagnosis{i: i}
	d.fine("version", "runnel %s", serve.Version())
	conf, file, left, err := i.ReadConfigs(cmd.Context())
	if left != nil {
		d.bad("config", "%v", left)
	}
	switch {
	case err != nil:
		d.bad("config", "%v", err)
	case file == "":
		d.fine("config", "no file; looked for %s", strings.Join(config.Places(i.Getenv), ", "))
	default:
		d.fine("config", "%s", file)
	}
	if conf != nil {
		set, count, err := i.Registry(conf)
		d.programs(set.Tools.Tools()) // also where others are wrong
		d.upstreams(cmd.Context(), conf)
		switch {
		case err != nil:
			d.bad("tools", "%v", err)
		case count+len(conf.Upstreams) == 0:
			d.fine("tools", "none; name some with --tool or in a config file")
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
	if err := tryWriting(os.TempDir()); err != nil {
		d.bad("temporary files", "%v; TMPDIR names another directory", err)
	} else {
		d.fine("temporary files", "%s", os.TempDir())
	}
	if conf != nil {
		d.state(cmd.Context(), conf)
		d.limits(conf)
	}
	for _, h := range hosts.Table {
		d.installed(cmd.Context(), h, false)
	}
	for _, version := range []string{mcp.NewestHandshake().Name, ""} {
		what := "session, " + cmp.Or(version, "stateless era")
		if said, err := i.trySession(cmd.Context(), version); err != nil {
			d.bad(what, "%v", err)
		} else {
			d.fine(what, "%s", said)
		}
	}
	return d.verdict()
}

// verdict is the end of the command.
func (d *diagnosis) verdict() error {
	switch {
	case d.err != nil:
		return fmt.Errorf("writing the output: %w", d.err)
	case d.wrong > 0:
		return exitError(exitFailure)
	}
	return nil
}

// programs looks for what the tools start. The registry reports everything else about them.
func (d *diagnosis) programs(list []tools.Tool) {
	if _, err := process.ThisProgram(); err != nil {
		d.bad("commands", "none can be started: %v", err)
	}
	for _, tool := range list {
		c, ok := tool.(*command.Command)
		if !ok {
			continue
		}
		switch found, err := c.Program(); {
		case err != nil:
			d.bad("tool "+c.Describe().Name, "%v", err)
		case found != "": // else it is known only when the tool is called
			d.fine("tool "+c.Describe().Name, "%s", found)
		}
	}
}

// upstreams starts each of the other servers, all at once, and says what it answers.
func (d *diagnosis) upstreams(ctx context.Context, conf *config.Config) {
	list, _ := upstream.Servers(conf, d.i.ServersBase(), zerolog.Nop()) // the registry reports the errors
	probed, errs := make([]upstream.Probed, len(list)), make([]error, len(list))
	var wg sync.WaitGroup
	for n, u := range list {
		wg.Go(func() { probed[n], errs[n] = u.Probe(ctx, checkTime) })
	}
	wg.Wait()
	for n, u := range list {
		if errs[n] != nil {
			d.bad("upstream "+u.Name(), "%v", errs[n])
			continue
		}
		p := probed[n]
		d.fine("upstream "+u.Name(), "%s, protocol %s, %s, %d ms", term.Printable(strings.TrimSpace(p.Server.Name+" "+p.Server.Version)), p.Protocol, term.Count(p.Tools, "tool"), p.After.Milliseconds())
	}
}

// tryWriting writes a file into a directory, for a moment: on a full disk one can be made, but nothing be written to it.
func tryWriting(dir string) error {
	f, err := os.CreateTemp(dir, ".runnel-doctor-")
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, 64<<10)) // about the size of an empty state
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}

// littleRoom is when the state's disk has too few free bytes: room for some logs of builds.
const littleRoom = 100 << 20

// limits compares how much the system and the config allow at once.
func (d *diagnosis) limits(conf *config.Config) {
	calls := conf.Tasks.MaxLive + conf.Limits.MaxInFlight
	fine := true
	files, processes := system.Limits()
	for _, l := range []struct {
		what    string
		allowed uint64
		flag    string // ulimit's
		need    int
	}{
		{"open files", files, "-n", 64 + 4*calls + 4*len(conf.Upstreams)},  // a command's pipes, and what watches it
		{"processes", processes, "-u", 32 + 2*calls + len(conf.Upstreams)}, // a shell, and what it runs
	} {
		if l.allowed < uint64(l.need) {
			fine = false
			d.bad("limits", "%d %s are allowed, and %d calls at once (tasks.maxLive and limits.maxInFlight together) may need %d: allow more (ulimit %s %[4]d), or fewer calls",
				l.allowed, l.what, calls, l.need, l.flag)
		}
	}
	if fine {
		d.fine("limits", "enough files and processes for %d calls at once", calls)
	}
}

// state looks at where tasks live. It leaves nothing there.
func (d *diagnosis) state(ctx context.Context, conf *config.Config) {
	if conf.State.InMemory() {
		d.fine("state", "memory: tasks end with their process")
		return
	}
	if conf.State.IsURL() {
		d.remoteState(ctx, conf)
		return
	}
	dir, err := conf.StateDir(d.i.Getenv)
	if err != nil {
		d.bad("state", "%v: name a directory with --state", err)
		return
	}
	there := serve.NearestDir(dir)
	if err := tryWriting(there); err != nil {
		d.bad("state", "%s cannot be written: %v", there, err)
		return
	}
	if room := system.FreeRoom(there); room < littleRoom {
		d.bad("disk", "%.1f MiB are free for %s, and new tasks are refused when it is full: free some of it, or name a directory on another one with --state",
			float64(room)/(1<<20), there)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, checkTime, fmt.Errorf("no answer within %v", checkTime))
	defer cancel()
	r, err := sqlite.Check(ctx, dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.fine("state", "%s: not there yet, the first task makes it", dir)
	case err != nil:
		d.bad("state", "%s: %v", dir, err)
	case r.Damage != nil:
		d.bad("state", "%s is damaged; move it away:\n%s", dir, strings.Join(r.Damage, "\n"))
	case r.Unsound != nil:
		d.bad("state", "some tasks in %s are damaged; the others are not. Forget each with runnel tasks rm ID:\n%s", dir, strings.Join(r.Unsound, "\n"))
	case r.Open != nil:
		d.bad("state", "others may read it; keep each yours with %s:\n%s", system.KeepPrivate, strings.Join(r.Open, "\n"))
	default:
		d.fine("state", "%s: %d tasks, %d of them not ended, %d runnels using it, %.1f MiB", dir, r.Tasks, r.Working, r.Processes, float64(r.Bytes)/(1<<20))
	}
}

// remoteState looks whether the servers of a state answer.
func (d *diagnosis) remoteState(ctx context.Context, conf *config.Config) {
	store, err := serve.OpenURL(conf, d.i.Getenv, true, d.i.Logger())
	if err != nil {
		d.bad("state", "%v", err)
		return
	}
	defer func() { _ = store.Close() }()
	ctx, cancel := context.WithTimeoutCause(ctx, checkTime, fmt.Errorf("no answer within %v", checkTime))
	defer cancel()
	report, err := store.Check(ctx, conf.Server.Owner)
	if err != nil {
		d.bad("state", "%v", err)
		return
	}
	d.fine("state", "%s: %s", conf.State.Dir, report)
}

// trySession serves the self-test tools in process, calls one whose output streams, and says how that went.
func (i *invocation) trySession(ctx context.Context, version string) (said string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, checkTime, fmt.Errorf("no answer within %v", checkTime))
	defer cancel()
	call := remote.New(remote.Options{Token: json.RawMessage(`"doctor"`)})
	set := upstream.NewSet(&tools.Registry{})
	for _, tool := range selftest.Tools() {
		if err := set.Tools.Add(tool); err != nil {
			return "", err
		}
	}
	began := time.Now()
	client, disconnect, err := i.DialTools(ctx, rpc.DialOptions{
		Version:        version,
		Info:           mcp.Implementation{Name: "runnel doctor", Version: "1"},
		Capabilities:   mcp.ClientCapabilities{PartialResults: &mcp.Present{}},
		OnNotification: func(method string, params json.RawMessage) { call.Notification(method, params) },
	}, config.Default(), set, tasks.NewMemory())
	if err != nil {
		return "", err
	}
	defer disconnect()
	if _, err := call.Run(ctx, client, &remote.Params{Tool: "stream", Arguments: json.RawMessage(`{"count":100}`)}); err != nil {
		return "", fmt.Errorf("tools/call: %w", err)
	}
	stats := call.Tracker().Stats()
	if stats.Gaps > 0 || stats.Partials == 0 {
		return "", fmt.Errorf("%d partials of %d bytes, %d gaps", stats.Partials, stats.Bytes, stats.Gaps)
	}
	return fmt.Sprintf("%s, a tool's output streamed whole, %d ms", client.Version().Name, time.Since(began).Milliseconds()), nil
}
