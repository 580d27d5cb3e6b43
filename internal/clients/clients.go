// Package clients has one table: what is known about the programs that call tools. It sets defaults only: a
// config and a flag win over it, and a client that it does not list gets the general defaults.
package clients

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Client is what is known about a client. Zero is what an unknown client gets.
type Client struct {
	Name  string // clientInfo.name, or how it begins: Qwen Code adds the name of the server
	Title string
	Since string // the first version of which this is known; "" = all before the next row's
	Host  string // its name for "runnel install"; "" = it has none

	Text  int // bytes of a text that it shows its model whole
	Error int // the same of an error
	// Newlines of an error of a task become blanks, and it is cut after Error bytes.
	Flattens      bool
	GivesUp       time.Duration // on a call without a sign of life; 0 = not known to
	ProgressHelps bool          // progress counts as a sign of life
	Backgrounds   bool          // its model goes on while a task runs, and is told of the end
	Defers        bool          // its model sees the names of tools, and has to search for their schemas
	Resumes       bool          // after a restart it asks for the tasks of the session before
	// The member of a tool's _meta that, true, keeps it from being deferred; "" = none is known.
	Load string

	// The defaults that follow. 0 = the general ones.
	MaxResult     int           // tasks.maxResult
	MaxError      int           // the same for an error
	SyncWait      time.Duration // tasks.syncWait
	ImmediateWait time.Duration // tasks.immediateWait

	Source string
}

const (
	// patient is how long clients wait for a plain call that do not give up for minutes: a build that ends
	// before saves the model a request.
	patient = 2 * time.Minute
	// shown is how long a call may take before it becomes a task, if the client shows its progress until
	// then. A result inline costs one request of the model, a task in the background two.
	shown = 15 * time.Second
)

// Table lists all clients. Rows with the same Name are in the order of their versions. MaxResult is below
// Text where the client cuts a text at fewer than the general 32 KiB, MaxError where it shows less of an
// error than of another text.
var Table = []Client{
	{
		Name: "claude-code", Title: "Claude Code", Host: "claude-code",
		Text: 48 << 10, Error: 10_000, Defers: true, Load: "anthropic/alwaysLoad",
		MaxError: 9 << 10, SyncWait: patient,
		Source: "2.1.197, headless",
	},
	{
		Name: "claude-code", Title: "Claude Code", Since: "2.1.330", Host: "claude-code",
		Text: 48 << 10, Error: 10_000, Flattens: true, Backgrounds: true, Resumes: true, Defers: true,
		Load:     "anthropic/alwaysLoad",
		MaxError: 9 << 10, SyncWait: patient, ImmediateWait: shown,
		Source: "2.1.330 and 2.1.332, headless and in a terminal",
	},
	{
		Name: "codex-mcp-client", Title: "Codex", Host: "codex",
		Text: 8 << 10, Error: 8 << 10, GivesUp: 300 * time.Second,
		MaxResult: 8 << 10, SyncWait: patient,
		Source: "0.171.0, headless and in a terminal",
	},
	{
		Name: "gemini-cli-mcp-client", Title: "Gemini CLI", Host: "gemini",
		Text: 32 << 10, Error: 32 << 10,
		SyncWait: patient,
		Source:   "0.61.0, headless and in a terminal",
	},
	{
		Name: "opencode", Title: "opencode", Host: "opencode",
		Text: 48 << 10, Error: 48 << 10, GivesUp: 60 * time.Second, ProgressHelps: true,
		MaxResult: 12 << 10, // it shows 2,000 lines, however short
		Source:    "1.18.33, headless and in a terminal",
	},
	{
		Name: "goose-cli", Title: "Goose", Host: "goose",
		Text: 128 << 10, Error: 128 << 10, GivesUp: 300 * time.Second,
		SyncWait: patient,
		Source:   "1.52.0, headless",
	},
	{
		Name: "copilot-cli", Title: "Copilot CLI", Host: "copilot",
		Text: 16 << 10, Error: 16 << 10, GivesUp: 180 * time.Second, ProgressHelps: true,
		MaxResult: 16 << 10, SyncWait: patient,
		Source: "1.0.102, headless and in a terminal",
	},
	{
		Name: "continue-cli-client", Title: "Continue",
		Text: 256 << 10, Error: 256 << 10, GivesUp: 60 * time.Second,
		Source: "1.5.47, headless",
	},
	{
		Name: "@cline/core", Title: "Cline CLI", Host: "cline",
		Text: 4 << 10, Error: 4 << 10, GivesUp: 60 * time.Second,
		MaxResult: 4 << 10,
		Source:    "3.0.65, headless",
	},
	{
		Name: "qwen-cli-mcp-client", Title: "Qwen Code", Host: "qwen",
		Text: 24 << 10, Error: 12 << 10, GivesUp: 300 * time.Second, Defers: true, // it shows an error twice
		MaxResult: 24 << 10, MaxError: 11 << 10, SyncWait: patient,
		Source: "0.24.4, headless and in a terminal",
	},
	{
		Name: "kilo", Title: "Kilo", Host: "kilo",
		Text: 48 << 10, Error: 48 << 10, GivesUp: 60 * time.Second, ProgressHelps: true,
		MaxResult: 12 << 10, // it shows 2,000 lines, however short, and of a longer text only the head
		Source:    "7.7.9, headless and in a terminal",
	},
	{
		Name: "pi", Title: "Pi", Host: "pi",
		Text: 20 << 10, Error: 20 << 10, GivesUp: 60 * time.Second, ProgressHelps: true,
		MaxResult: 19 << 10, // what it says of a link counts, too
		Source:    "1.6.0, headless and in a terminal",
	},
	{Name: "claude-ai", Title: "Claude Desktop", Host: "claude-desktop", GivesUp: 60 * time.Second,
		Source: "reports"},
	{Name: "cursor-vscode", Title: "Cursor", Host: "cursor", GivesUp: 60 * time.Second, Source: "reports"},
	{Name: "Visual Studio Code", Title: "VS Code", Host: "vscode", Source: "its source"},
}

// Find returns what is known about a client of a version; the zero value if nothing is.
func Find(name, version string) (known Client) {
	for _, c := range Table {
		if (name == c.Name || strings.HasPrefix(name, c.Name+"-")) && compare(version, c.Since) >= 0 {
			known = c
		}
	}
	return known
}

// OfHost returns what is known about the newest version of a host of "runnel install"; the zero value if
// nothing is.
func OfHost(id string) (known Client) {
	for _, c := range Table {
		if c.Host == id {
			known = c
		}
	}
	return known
}

// Defaults returns the defaults that are not the general ones, for people; "" if all are.
func (c Client) Defaults() string {
	var all []string
	add := func(name string, given bool, value any) {
		if given {
			all = append(all, fmt.Sprintf("`%s` %v", name, value))
		}
	}
	add("maxResult", c.MaxResult > 0, fmt.Sprintf("%d KiB", c.MaxResult>>10))
	add("maxResult", c.MaxError > 0, fmt.Sprintf("of an error %d KiB", c.MaxError>>10))
	add("syncWait", c.SyncWait > 0, fmt.Sprintf("%g s", c.SyncWait.Seconds()))
	add("immediateWait", c.ImmediateWait > 0, fmt.Sprintf("%g s", c.ImmediateWait.Seconds()))
	add("detach", c.Resumes, "of tasks")
	return strings.Join(all, ", ")
}

// compare compares two versions by their numbers. What is not a number is 0.
func compare(a, b string) int {
	for a != "" || b != "" {
		var x, y string
		x, a, _ = strings.Cut(a, ".")
		y, b, _ = strings.Cut(b, ".")
		n, _ := strconv.Atoi(x)
		m, _ := strconv.Atoi(y)
		if n != m {
			return cmp.Compare(n, m)
		}
	}
	return 0
}
