package config

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tools/config/strict"
	"runnel/tools/text"
)

// Default returns the config of an empty file.
func Default() *Config {
	return &Config{
		Server: Server{Name: "runnel", Owner: tasks.DefaultOwner},
		Limits: Limits{MaxLine: rpc.DefaultMaxLine, MaxInFlight: rpc.DefaultMaxInFlight,
			Drain: Drain(rpc.DefaultDrain)},
		Partials: Partials{
			Pace:       Duration(partials.DefaultPace), // as fast as an eye follows
			MaxBytes:   partials.DefaultMaxBytes,
			MaxPending: partials.DefaultMaxPending,
		},
		Tasks: Tasks{
			TTL:           Duration(tasks.DefaultTTL),
			MaxTTL:        Duration(tasks.DefaultMaxTTL),
			PollInterval:  Duration(tasks.DefaultPollInterval),
			MaxLive:       tasks.DefaultMaxLive,
			SyncWait:      Duration(tasks.DefaultSyncWait),
			ImmediateWait: Duration(tasks.DefaultImmediateWait),
			Heartbeat:     Duration(tasks.DefaultHeartbeat),
			FailedExit:    "failed",
			MaxResult:     text.DefaultMaxResult,
		},
		State:         State{MaxState: tasks.DefaultMaxState},
		History:       History{Calls: 200, Age: Duration(7 * 24 * time.Hour), Log: 64 << 10},
		Log:           Log{Level: "info", Format: "auto"},
		FallbackTools: "auto",
	}
}

// DefaultMaxOutput is the default of Command.MaxOutput.
const DefaultMaxOutput = Size(256 << 20)

// DefaultInputIdle is the default of Command.IdleTimeout for a command that takes input: a model forgets it.
const DefaultInputIdle = Duration(30 * time.Minute)

// DefaultQueueTimeout is the default of Command.QueueTimeout, equal to the default ttl of a task.
const DefaultQueueTimeout = Duration(time.Hour)

// fillDefaults sets the keys that a command's config leaves out.
func (c *Command) fillDefaults() {
	c.Pty = c.Pty || c.Interactive
	if c.Interactive {
		c.Size = cmp.Or(c.Size, "120x40")
	}
	c.Size = cmp.Or(c.Size, "80x24")
	if c.TakesInput() {
		c.IdleTimeout = cmp.Or(c.IdleTimeout, DefaultInputIdle)
	}
	if c.Structured == StructuredJSON && !c.Pty {
		c.Stderr = cmp.Or(c.Stderr, "separate") // a warning on stderr would not be JSON
	}
	c.Stderr = cmp.Or(c.Stderr, "merge")
	c.ANSI = cmp.Or(c.ANSI, "strip")
	c.Encoding = cmp.Or(c.Encoding, text.AutoEncoding)
	c.Output = cmp.Or(c.Output, "text")
	c.Task = cmp.Or(c.Task, mcp.TaskOptional)
	c.Structured = cmp.Or(c.Structured, StructuredNone)
	c.Detach = cmp.Or(c.Detach, DetachAuto)
	c.Grace = cmp.Or(c.Grace, new(Duration(5*time.Second))) // most programs need less to clean up
	c.MaxOutput = cmp.Or(c.MaxOutput, new(DefaultMaxOutput))
	if c.OkExitCodes == nil {
		c.OkExitCodes = []int{0}
	}
}

// FillDefaults sets the keys that an upstream's config leaves out.
func (u *Upstream) FillDefaults() {
	u.Restart = cmp.Or(u.Restart, "on-failure")
	// Many servers have a single thread, and answer nothing while a tool computes.
	u.HungAfter = cmp.Or(u.HungAfter,
		new(Duration(0))) // ping is optional, and a server with one thread answers none while it works
}

// Override sets the value of any key, such as tools.test.timeout, which may be in a file or not. The text is
// the value in YAML.
func (c *Config) Override(key, text string) error {
	over := *c // for its own places: errors have none in a file
	over.source = strict.Nowhere()
	var yaml bytes.Buffer
	indent := ""
	for name := range strings.SplitSeq(key, ".") {
		if name == "" {
			return Wrong("KEY=VALUE, such as tasks.ttl=2h", "%q is not the key of a config", key)
		}
		yaml.WriteString(indent)
		yaml.Write(strict.AppendString(nil, name))
		yaml.WriteByte(':')
		indent = "\n" + strings.TrimPrefix(indent, "\n") + " "
	}
	if strings.ContainsAny(text, "\n\r") && !json.Valid([]byte(text)) { // it would not be on the key's line
		text = string(strict.AppendString(nil, text))
	}
	yaml.WriteString(" " + text + "\n")
	if err := over.source.Decode(yaml.Bytes(), &over,
		strict.Options{Over: true, Instead: instead, List: list}); err != nil {
		return err
	}
	values := over.source.Paths()
	over.source = c.source
	*c = over
	if c.set == nil {
		c.set = map[string]string{}
	}
	for path := range values {
		if path == key || strings.HasPrefix(path, key+".") {
			c.set[path] = "--set " + key
		}
	}
	return nil
}
