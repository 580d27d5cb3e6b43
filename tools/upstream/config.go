package upstream

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"runnel/rpc"
	httpclient "runnel/rpc/http/client"
	"runnel/tools"
	"runnel/tools/config"
	"runnel/tools/process"
	"runnel/tools/sandbox"
	"runnel/tools/secrets"
)

// definition is a server's part of the config, with the defaults filled in.
type definition struct {
	name      string
	config    config.Upstream
	dir       string
	env       []string
	sandbox   *sandbox.Policy    // what the server may do; nil = all that runnel may
	hops      int                // from the environment
	at        httpclient.Options // how to reach a server at a URL
	atErr     error              // why it cannot be reached
	version   string             // runnel's own, for the server
	secrets   *secrets.Current   // nil = none
	hungAfter time.Duration
	times     times
	log       zerolog.Logger
}

// times are a server's time limits and pauses, which tests shorten.
type times struct {
	start     time.Duration // a server may take to start: npx downloads it then
	list      time.Duration // how long a list waits for one server among others that starts
	prepare   time.Duration // how long the answer to initialize waits for that of the wrapped server
	down      time.Duration // a call waits for a server that is down
	pause     time.Duration // first pause before a start, doubled with each failure
	longest   time.Duration // longest pause
	steady    time.Duration // a server that has run so long has started well: the next pause is the first one
	pingAfter time.Duration // silence of a server that has calls
	exit      time.Duration // the failure of a call waits for how the server ended
	relist    time.Duration // least time between two looks at lists that change
}

var defaultTimes = times{
	start:     2 * time.Minute,
	list:      10 * time.Second, // hosts wait for a list for 30 s or more, and not all listen to its changes
	prepare:   20 * time.Second,
	down:      10 * time.Second,
	pause:     500 * time.Millisecond,
	longest:   time.Minute,
	steady:    time.Minute,
	pingAfter: 10 * time.Second,
	exit:      2 * time.Second,
	relist:    rpc.ListPace,
}

const (
	// maxPrefix leaves half of a tool's name to the server that it comes from.
	maxPrefix = 64
)

// define checks a configuration. Its error is a *config.Error.
func define(name string, conf config.Upstream, env config.Base, log zerolog.Logger) (*definition, error) {
	switch {
	case len(conf.Command) == 0 && conf.URL == "":
		return nil, &config.Error{Problem: "names no server to start",
			Allowed: "command (a list of words) or url"}
	case conf.URL != "" && (len(conf.Command) > 0 || len(conf.Env) > 0):
		return nil, &config.Error{Key: "url", Problem: "is there beside command or env",
			Allowed: "url alone, or a command with its env"}
	case conf.URL != "" && conf.Sandbox.Sandboxed():
		return nil, &config.Error{Key: "sandbox", Problem: "is for a server that runnel starts",
			Allowed: "command instead of url"}
	case conf.Sandbox != nil && slices.Contains(conf.Sandbox.Network, "ask"):
		return nil, &config.Error{Key: "sandbox.network",
			Problem: "ask is for tools: a connection of a server belongs to no call",
			Allowed: "none, all, or hosts such as example.com:443"}
	case conf.Sandbox.AsksToWrite():
		return nil, &config.Error{Key: "sandbox.write",
			Problem: "ask is for tools: a write of a server belongs to no call",
			Allowed: "files and directories"}
	case conf.URL == "" && len(conf.Headers) > 0:
		return nil, &config.Error{Key: "headers", Problem: "are for a server at a url",
			Allowed: "env, for a command"}
	case len(conf.Command) > 0 && conf.Command[0] == "":
		return nil, &config.Error{Key: "command[0]", Problem: "is empty", Allowed: "a program's name or path"}
	case conf.Prefix != "" && tools.CheckName(conf.Prefix) != nil || len(conf.Prefix) > maxPrefix:
		return nil, &config.Error{Key: "prefix",
			Problem: fmt.Sprintf("%q cannot stand in a tool's name", conf.Prefix),
			Allowed: fmt.Sprintf("up to %d letters, digits, _, - and .", maxPrefix)}
	case conf.Runs != "" && !config.IsClass(conf.Runs):
		return nil, &config.Error{Key: "runs",
			Problem: fmt.Sprintf("%q is not a class of workers", conf.Runs),
			Allowed: "1 to 64 letters, digits, - and _"}
	case conf.HungAfter != nil && *conf.HungAfter < 0:
		return nil, &config.Error{Key: "hungAfter", Problem: conf.HungAfter.String() + " is negative",
			Allowed: "0 (for ever) or more"}
	}
	for _, tool := range conf.Deny {
		if slices.Contains(conf.Allow, tool) {
			return nil, &config.Error{Key: "deny", Problem: fmt.Sprintf("%q stands in allow, too", tool),
				Allowed: "one of the two"}
		}
	}
	dir, vars, err := env.Inherit("", conf.Env)
	if err != nil {
		return nil, err
	}
	if conf.Sandbox, err = env.SandboxOf(conf.Sandbox); err != nil {
		return nil, err
	}
	policy, err := conf.Sandbox.Policy(dir, vars)
	if err != nil {
		return nil, err
	}
	vars = process.Environ(conf.Sandbox.Variables(vars), dir, conf.Env)
	before, _ := process.LookupEnv(vars, hopsVariable)
	hops, _ := strconv.Atoi(before) // "" is 0
	if hops >= maxHops {
		return nil, &config.Error{Problem: tooManyHops(hops),
			Allowed: "a config for the upstream, by --config, that does not name itself"}
	}
	log = log.With().Str("upstream", name).Logger()
	var at httpclient.Options
	if conf.URL != "" {
		variable := func(name string) string { value, _ := process.LookupEnv(vars, name); return value }
		if at, err = httpclient.NewOptions(conf.URL, conf.Headers, variable, log); err != nil &&
			!errors.Is(err, httpclient.ErrNotSet) {
			return nil, &config.Error{Problem: err.Error(),
				Allowed: "url: https://HOST/PATH, headers: {NAME: VALUE}"}
		}
	}
	conf.FillDefaults()
	return &definition{
		name: name, config: conf, dir: dir, version: env.Version, secrets: env.Secrets,
		hungAfter: time.Duration(*conf.HungAfter), times: defaultTimes,
		env: vars, sandbox: policy,
		hops: hops,
		at:   at, atErr: err,
		log: log,
	}, nil
}

// same reports whether two definitions of a server are equal.
func (d *definition) same(as *definition) bool {
	return d.name == as.name && reflect.DeepEqual(d.config, as.config) && d.dir == as.dir &&
		slices.Equal(d.env, as.env)
}

// takes reports whether the config wants one of the server's tools.
func (d *definition) takes(tool string) bool {
	return !slices.Contains(d.config.Deny, tool) &&
		(len(d.config.Allow) == 0 || slices.Contains(d.config.Allow, tool))
}

// mayHave reports whether the server may have a tool or a prompt with a name.
func (d *definition) mayHave(name string) bool { return strings.HasPrefix(name, d.config.Prefix) }

// title names the server to a model.
func (d *definition) title() string {
	if d.config.Prefix == "" {
		return d.name
	}
	return d.name + " (tools and prompts whose names begin with " + d.config.Prefix + ")"
}

// failure makes the error for a caller of one of the server's tools.
func (d *definition) failure(err error) error { return fmt.Errorf("upstream %s: %w", d.name, err) }

// Name is the name in the config.
func (d *definition) Name() string { return d.name }

// Program finds the program of the server.
func (d *definition) Program() (string, error) {
	path, _ := process.LookupEnv(d.env, "PATH")
	return process.FindProgram(d.config.Command[0], d.dir, path)
}
