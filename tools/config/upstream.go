package config

import "fmt"

// Upstream is one entry of "upstreams:" in the config file: another MCP server whose tools are served, too.
type Upstream struct {
	// The server's program and its arguments; it runs in the config file's directory.
	Command []string          `yaml:"command"`
	Env     map[string]string `yaml:"env"` // added to runnel's own environment
	URL     string            `yaml:"url"` // instead of both: the server's endpoint for Streamable HTTP
	// Sent with each request; ${NAME} in a value or in URL is a variable of runnel's environment.
	Headers map[string]string `yaml:"headers"`
	Prefix  string            `yaml:"prefix"` // added before the names of its tools; default: none
	// Allow and Deny list names of tools, without the prefix. Without Allow, all tools are served except
	// those in Deny.
	Allow   []string      `yaml:"allow"`
	Deny    []string      `yaml:"deny"`
	Restart RestartPolicy `yaml:"restart"`
	// How long a ping may stay unanswered while a call is silent; 0 = for ever (default).
	HungAfter *Duration `yaml:"hungAfter"`
	Runs      string    `yaml:"runs"`    // the class of the workers that run it; "" = it runs here
	Sandbox   *Sandbox  `yaml:"sandbox"` // what a server with a command may do; nil = as in Config.Sandbox
}

// RestartPolicy says when an upstream that has ended is started again: on-failure, always or never.
type RestartPolicy string

// UnmarshalText reads one of the three words.
func (r *RestartPolicy) UnmarshalText(text []byte) error {
	return oneOf((*string)(r), string(text), "on-failure", "always", "never")
}

// Again reports whether an upstream is to be started again. failed: it could not be started, hung, or did not
// end with exit code 0.
func (r RestartPolicy) Again(failed bool) bool { return r == "always" || failed && r != "never" }

// AndServers completes a number of tools, which lacks the tools of upstreams: those are known only when the
// upstreams run.
func (c *Config) AndServers() string {
	switch n := len(c.Upstreams); n {
	case 0:
		return ""
	case 1:
		return " and those of another server"
	default:
		return fmt.Sprintf(" and those of %d other servers", n)
	}
}
