package config

import (
	"cmp"
	"time"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tools/text"
)

// Default is what holds where nothing is said.
func Default() *Config {
	return &Config{
		Server: Server{Name: "runnel", Owner: "local"},
		Limits: Limits{
			MaxLine:     16 << 20,
			MaxInFlight: 256,
			Drain:       Drain(2 * time.Second), // a call that is about to finish does; a host does not wait long after it closed the pipe
		},
		Partials: Partials{
			Pace:       Duration(partials.DefaultPace), // as fast as an eye follows
			MaxBytes:   partials.DefaultMaxBytes,
			MaxPending: 1 << 20,
		},
		Tasks: Tasks{
			TTL:          Duration(time.Hour),
			MaxTTL:       Duration(24 * time.Hour),
			PollInterval: Duration(2 * time.Second),
			MaxLive:      100,

			SyncWait:      Duration(50 * time.Second), // the most common hosts give up after 60 s
			ImmediateWait: Duration(100 * time.Millisecond),
			Heartbeat:     Duration(10 * time.Second),
			FailedExit:    "failed",
			MaxResult:     text.DefaultMaxResult,
		},
		State:         State{MaxState: 4 << 30},
		FallbackTools: "auto",
	}
}

// DefaultMaxOutput is how much output of a tool is stored whose config says nothing.
const DefaultMaxOutput = Size(256 << 20)

// fillDefaults fills in what a command's config leaves out.
func (c *Command) fillDefaults() {
	if c.Structured == StructuredJSON && !c.Pty {
		c.Stderr = cmp.Or(c.Stderr, "separate") // a warning would not be JSON
	}
	c.Stderr = cmp.Or(c.Stderr, "merge")
	c.ANSI = cmp.Or(c.ANSI, "strip")
	c.Output = cmp.Or(c.Output, "text")
	c.Task = cmp.Or(c.Task, mcp.TaskOptional)
	c.ConfirmFallback = cmp.Or(c.ConfirmFallback, "refuse")
	c.Structured = cmp.Or(c.Structured, StructuredNone)
	c.Grace = cmp.Or(c.Grace, new(Duration(5*time.Second))) // as long as most programs need to clean up
	c.MaxOutput = cmp.Or(c.MaxOutput, new(DefaultMaxOutput))
	c.MaxResult = cmp.Or(c.MaxResult, new(Size(text.DefaultMaxResult)))
	if c.OkExitCodes == nil {
		c.OkExitCodes = []int{0}
	}
}

// FillDefaults fills in what an upstream's config leaves out.
func (u *Upstream) FillDefaults() {
	u.Restart = cmp.Or(u.Restart, "on-failure")
	// Many servers have one thread, and answer nothing while a tool computes.
	u.HungAfter = cmp.Or(u.HungAfter, new(Duration(time.Minute)))
}
