package tools

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/goccy/go-yaml"

	"runnel/rpc/mcp"
)

// CommandConfig is one entry of "tools:" in the config file: a command that runs as a tool.
// What a key leaves out has the default that stands beside it.
type CommandConfig struct {
	Title       string               `yaml:"title"`
	Description string               `yaml:"description"`
	Annotations *mcp.ToolAnnotations `yaml:"annotations"`

	// Command is the argv, with placeholders; Shell is a script for /bin/sh. Exactly one of them is given.
	Command []string `yaml:"command"`
	Shell   string   `yaml:"shell"`

	Input    Object   `yaml:"input"`    // properties, or a whole JSON Schema of type object
	Required []string `yaml:"required"` // names of properties that a call must give

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
	MaxOutput     Size            `yaml:"maxOutput"`     // output that is streamed; default DefaultMaxOutput
	MaxResult     Size            `yaml:"maxResult"`     // text in the result; default DefaultMaxResult
}

// Defaults of a command tool.
const (
	DefaultGrace     = Duration(5 * time.Second) // as long as most programs need to clean up
	DefaultMaxOutput = Size(256 << 20)
	DefaultMaxResult = Size(256 << 10) // what a model can still read; a line with it stays below 1 MiB

	// limitMaxResult keeps a result's line below 1 MiB, which is where some clients stop reading.
	limitMaxResult = Size(960 << 10)
)

// A ConfigError is a value in the configuration of a command that cannot be used.
type ConfigError struct {
	Key     string // path below the tool, such as "command[2]" or "input.name"; "" = the tool as a whole
	Problem string
	Allowed string // what may stand there instead; may be empty
}

func (e *ConfigError) Error() string {
	s := e.Problem
	if e.Key != "" {
		s = e.Key + ": " + s
	}
	if e.Allowed != "" {
		s += "; allowed: " + e.Allowed
	}
	return s
}

// Object is a JSON object that keeps the order in which its keys were written.
// In YAML it is a mapping, whatever it holds.
type Object json.RawMessage

// UnmarshalYAML turns the mapping into JSON.
func (o *Object) UnmarshalYAML(text []byte) error {
	var v any
	if err := yaml.UnmarshalWithOptions(text, &v, yaml.UseOrderedMap()); err != nil {
		return err
	}
	if _, ok := v.(yaml.MapSlice); !ok && v != nil {
		return fmt.Errorf("is no mapping; allowed: a mapping of names to JSON Schemas, or a JSON Schema of type object")
	}
	b, err := appendJSON(nil, v)
	*o = b
	return err
}

// MarshalJSON returns the object as it is.
func (o Object) MarshalJSON() ([]byte, error) { return json.RawMessage(o).MarshalJSON() }

// appendJSON is written by hand because json.Marshal would sort the keys, and a model reads the
// properties of a tool in the order they stand in.
func appendJSON(dst []byte, v any) ([]byte, error) {
	var err error
	switch v := v.(type) {
	case yaml.MapSlice:
		dst = append(dst, '{')
		for i, item := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = appendJSON(dst, fmt.Sprint(item.Key)); err != nil {
				return dst, err
			}
			dst = append(dst, ':')
			if dst, err = appendJSON(dst, item.Value); err != nil {
				return dst, err
			}
		}
		return append(dst, '}'), nil
	case []any:
		dst = append(dst, '[')
		for i, item := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = appendJSON(dst, item); err != nil {
				return dst, err
			}
		}
		return append(dst, ']'), nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return dst, fmt.Errorf("%s is no number that JSON knows", strconv.FormatFloat(v, 'g', -1, 64))
		}
	}
	b, err := json.Marshal(v)
	return append(dst, b...), err
}
