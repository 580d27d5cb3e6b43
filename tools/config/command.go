package config

import (
	"time"

	"runnel/rpc/mcp"
)

// Command is one entry of "tools:" in the config file: a command that runs as a tool.
// A key that is left out has the default that stands beside it.
type Command struct {
	Title       string               `yaml:"title"`
	Description string               `yaml:"description"`
	Annotations *mcp.ToolAnnotations `yaml:"annotations"`

	// Command is the argv, with placeholders; Shell is a script for /bin/sh. Exactly one of them is given.
	Command []string `yaml:"command"`
	Shell   string   `yaml:"shell"`

	Input    Object   `yaml:"input" json:",omitempty"` // properties, or a whole JSON Schema of type object
	Required []string `yaml:"required"`                // names of properties that a call must give

	Dir   string            `yaml:"dir"`   // default: the config file's directory; relative to it
	Env   map[string]string `yaml:"env"`   // added to runnel's own environment
	Stdin string            `yaml:"stdin"` // with placeholders; default: the null device

	Timeout     Duration  `yaml:"timeout"`     // longest run; 0 = no limit
	IdleTimeout Duration  `yaml:"idleTimeout"` // longest time without output; 0 = no limit
	Grace       *Duration `yaml:"grace"`       // between TERM and KILL; default DefaultGrace
	OkExitCodes []int     `yaml:"okExitCodes"` // default [0]

	Stderr   string `yaml:"stderr"`   // merge (default), separate, discard
	Pty      bool   `yaml:"pty"`      // give the command a terminal; its stderr is merged
	ANSI     string `yaml:"ansi"`     // strip (default), keep
	Output   string `yaml:"output"`   // text (default), lines
	Progress string `yaml:"progress"` // regexp with one group (percent) or two (done, total)

	Task          mcp.TaskSupport `yaml:"task"`          // optional (default), required, forbidden
	MaxConcurrent int             `yaml:"maxConcurrent"` // calls that run at once; 0 = no limit
	MaxOutput     *Size           `yaml:"maxOutput"`     // output that is stored, its head and its tail; default DefaultMaxOutput
	MaxResult     *Size           `yaml:"maxResult"`     // text in the result; default Environment.MaxResult

	Structured   string `yaml:"structured"`                     // the content of structuredContent: none (default), summary, json
	OutputSchema Object `yaml:"outputSchema" json:",omitempty"` // with structured: json, what the command prints

	Confirm         string `yaml:"confirm"`         // a question to the user, with placeholders, before the command is started
	ConfirmFallback string `yaml:"confirmFallback"` // for a client that cannot be asked: refuse (default), run

	Detach bool `yaml:"detach"` // the command outlives runnel: a process of its own runs it (tools/detach)
}

// Defaults of a command tool.
const (
	DefaultGrace     = Duration(5 * time.Second) // as long as most programs need to clean up
	DefaultMaxOutput = Size(256 << 20)

	// MinMaxResult leaves room for the line that says what is left out, and something around it.
	MinMaxResult = Size(1 << 10)
	// LimitMaxResult leaves room for a link to the log and the like.
	LimitMaxResult = Size(mcp.MaxContent - 32<<10)
)
