package config

import (
	"fmt"
	"slices"
	"time"

	"runnel/rpc/mcp"
)

// Notify is one "notify:" in the config file: who is notified that a task has ended. Instead of the mapping,
// a duration means {after: DURATION}, and never means nobody.
type Notify struct {
	After *Duration `yaml:"after"` // the end of a shorter task is not reported; default 30 s
	// Statuses that are reported, and OnMatch; default: completed, failed, cancelled.
	On      []string `yaml:"on"`
	Desktop *bool    `yaml:"desktop"` // a notification on the desktop; default: true without command and url
	Command []string `yaml:"command"` // a program that gets the notice in variables; its arguments follow
	// URL is where the notice is sent as JSON, by POST; ${NAME} is a variable of runnel's environment.
	URL string `yaml:"url"`
	// Headers are sent with the request; ${NAME} in a value is a variable, too.
	Headers map[string]string `yaml:"headers"`

	Never bool // nothing is reported
}

// OnMatch is the word in Notify.On for what a tool finds in its output (Command.Ready, Command.Watch),
// however short its task is.
const OnMatch = "match"

// defaultAfter is about as long as people wait and watch a task.
const defaultAfter = Duration(30 * time.Second)

// never is the word for no notices.
const never = "never"

// SetShort reads the word that may replace the mapping.
func (n *Notify) SetShort(text string) error {
	*n = Notify{Never: text == never}
	if n.Never {
		return nil
	}
	n.After = new(Duration)
	if n.After.UnmarshalText([]byte(text)) != nil || *n.After < 0 {
		return Wrong("such as 30s or 5m: the ends of longer tasks are reported; never = none is",
			"%q is not a duration", text)
	}
	return nil
}

// String returns the word for it that SetShort reads.
func (n *Notify) String() string {
	if n == nil || n.Never {
		return never
	}
	return n.After.String()
}

// Complete fills in the defaults. Its error is an *Error.
func (n *Notify) Complete() error {
	reported := []string{string(mcp.TaskCompleted), string(mcp.TaskFailed), string(mcp.TaskCancelled)}
	if n.After == nil {
		n.After = new(defaultAfter)
	}
	if *n.After < 0 {
		return &Error{Key: "after", Problem: n.After.String() + " is negative", Allowed: "0 or more"}
	}
	for i, status := range n.On {
		if status != OnMatch && !slices.Contains(reported, status) {
			return &Error{Key: fmt.Sprintf("on[%d]", i), Problem: fmt.Sprintf("%q is unknown", status),
				Allowed: "completed, failed, cancelled, match"}
		}
	}
	if n.On == nil {
		n.On = reported
	}
	others := len(n.Command) > 0 || n.URL != ""
	if n.Desktop == nil {
		n.Desktop = new(!others)
	}
	switch {
	case n.Never:
	case len(n.On) == 0:
		return &Error{Key: "on", Problem: "is empty: nothing is reported",
			Allowed: "completed, failed, cancelled, match; or notify: never"}
	case !*n.Desktop && !others:
		return &Error{Key: "desktop", Problem: "false leaves no way to notify",
			Allowed: "command or url beside it; or notify: never"}
	case len(n.Command) > 0 && n.Command[0] == "":
		return &Error{Key: "command[0]", Problem: "is empty", Allowed: "a program's name or path"}
	case n.URL == "" && len(n.Headers) > 0:
		return &Error{Key: "headers", Problem: "are sent to a url, and there is none",
			Allowed: "url beside them"}
	}
	return nil
}
