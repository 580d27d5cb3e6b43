package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"runnel/internal/hosts"
	"runnel/internal/selftest"
	"runnel/internal/serve"
	"runnel/internal/term"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tools"
	"runnel/tools/command"
	"runnel/tools/config"
	"runnel/tools/process"
	"runnel/tools/remote"
	"runnel/tools/sandbox"
	"runnel/tools/upstream"
)

// Here checks all that a server in this process would need.
func (d *Doctor) Here(ctx context.Context) {
	d.fine("version", "runnel %s", serve.Version())
	conf, file, left, err := d.ReadConfigs(ctx)
	defer d.Notices.Close()
	if left != nil {
		d.bad("config", "%v", left)
	}
	var set *upstream.Set
	var count int
	var mistakes error
	if conf != nil {
		set, count, mistakes = d.Registry(conf)
	}
	inFile := mistakes != nil && file != "" && strings.HasPrefix(mistakes.Error(), file+":")
	switch {
	case err != nil:
		d.bad("config", "%v", err)
	case inFile:
		d.bad("config", "%v", mistakes)
	case file == "" && left != nil: // said above
	case file == "":
		d.fine("config", "no file; looked for %s", strings.Join(config.Places(d.Getenv), ", "))
	default:
		d.fine("config", "%s", file)
	}
	if conf != nil {
		d.programs(set.Tools.Tools()) // even if the config has mistakes elsewhere
		d.upstreams(ctx, conf)
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
			d.fine("tools", "%d%s", count, conf.AndServers())
		}
	}
	if conf != nil && len(conf.Secrets.Env)+len(conf.Secrets.Patterns) > 0 {
		if words := config.UnsetSecrets(d.Unset); words != "" {
			d.bad("secrets", "%s", words)
		} else {
			d.fine("secrets", "%s and %s", term.Count(len(conf.Secrets.Env), "variable"),
				term.Count(len(conf.Secrets.Patterns), "pattern"))
		}
	}
	if rules := d.Notices.Rules(); rules != nil {
		d.check("notices", rules.Check(), "their programs are here")
	}
	err = tryWriting(os.TempDir())
	if err != nil {
		err = fmt.Errorf("%w; TMPDIR names another directory", err)
	}
	d.check("temporary files", err, "%s", os.TempDir())
	if conf != nil {
		d.state(ctx, conf)
		d.limits(conf)
	}
	for _, h := range hosts.Table {
		d.installed(ctx, h, false)
	}
	for _, version := range []string{mcp.NewestHandshake().Name, ""} {
		said, err := d.trySession(ctx, version)
		d.check("session, "+cmp.Or(version, "stateless era"), err, "%s", said)
	}
}

// programs looks for the programs that the tools start. The registry reports everything else that is wrong
// with them.
func (d *Doctor) programs(list []tools.Tool) {
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
func (d *Doctor) upstreams(ctx context.Context, conf *config.Config) {
	list, _ := upstream.Servers(conf, d.ServersBase(conf), zerolog.Nop()) // the registry reports the errors
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
		if dir, err := conf.StateDir(d.Getenv); err == nil && !conf.State.IsURL() && !conf.State.InMemory() {
			file = u.Diary(dir)
		}
		// A server may start well, and end in the middle of its work: hosts show neither that nor what it
		// writes.
		if ends, last := upstream.Ends(file, time.Now().Add(-time.Hour)); ends > 1 && errs[n] == nil {
			errs[n] = fmt.Errorf("it starts, but has ended %s in the last hour, the last time: %s\nwhat "+
				"it wrote is in %s", term.Count(ends, "time"), term.Printable(last), file)
		} else if _, err := os.Stat(file); err == nil && errs[n] != nil {
			errs[n] = fmt.Errorf("%w\nwhat it wrote is in %s", errs[n], file)
		}
		d.check("upstream "+u.Name(), errs[n], "%s, protocol %s, %s, %d ms",
			term.Printable(strings.TrimSpace(p.Server.Name+" "+p.Server.Version)), p.Protocol,
			term.Count(p.Tools, "tool"), p.After.Milliseconds())
	}
}

// trySession serves the self-test tools in process and calls one whose output streams.
func (d *Doctor) trySession(ctx context.Context, version string) (said string, err error) {
	ctx, cancel := checking(ctx)
	defer cancel()
	call := remote.New(remote.Options{Token: json.RawMessage(`"doctor"`)})
	set := upstream.NewSet(&tools.Registry{})
	for _, tool := range selftest.Tools() {
		if err := set.Tools.Add(tool); err != nil {
			return "", err
		}
	}
	began := time.Now()
	client, disconnect, err := d.DialTools(ctx, rpc.DialOptions{
		Version:        version,
		Info:           mcp.Implementation{Name: "runnel doctor", Version: "1"},
		Capabilities:   mcp.ClientCapabilities{PartialResults: &mcp.Present{}},
		OnNotification: func(method string, params json.RawMessage) { call.Notification(method, params) },
	}, config.Default(), set, tasks.NewMemory())
	if err != nil {
		return "", err
	}
	defer disconnect()
	if _, err := call.Run(ctx, client,
		&remote.Params{Tool: "stream", Arguments: json.RawMessage(`{"count":100}`)}); err != nil {
		return "", fmt.Errorf("tools/call: %w", err)
	}
	stats := call.Tracker().Stats()
	if stats.Gaps > 0 || stats.Partials == 0 {
		return "", fmt.Errorf("%d partials of %d bytes, %d gaps", stats.Partials, stats.Bytes, stats.Gaps)
	}
	return fmt.Sprintf("%s, a tool's output streamed whole, %d ms", client.Version().Name,
		time.Since(began).Milliseconds()), nil
}
