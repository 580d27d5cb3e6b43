package top

import (
	"strings"

	"runnel/internal/term"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
)

// filter says which tasks the table shows. Its zero value shows all.
type filter struct {
	failed     bool // only those that failed
	tool, host string
	text       string // in the tool, the host, the arguments, or the last line or how it ended
}

func (f *filter) shows(t *tasks.Task) bool {
	switch {
	case f.failed && t.Status != mcp.TaskFailed, f.tool != "" && f.tool != t.Tool, f.host != "" &&
		f.host != t.Client:
		return false
	case f.text == "":
		return true
	}
	words := []string{t.ID, t.Tool, t.Client, arguments(t), t.StatusMessage}
	at, _ := index(term.Plain(strings.Join(words, " ")), f.text)
	return at >= 0
}

// String names what is shown.
func (f filter) String() string {
	var words []string
	if f.failed {
		words = append(words, "failed")
	}
	if f.tool != "" {
		words = append(words, "tool "+f.tool)
	}
	if f.host != "" {
		words = append(words, "host "+f.host)
	}
	if f.text != "" {
		words = append(words, "/"+f.text)
	}
	return strings.Join(words, ", ")
}

// pick turns a choice on, or off if it was made already.
func pick(choice *string, value string) {
	if *choice == value {
		value = ""
	}
	*choice = value
}

// maxArguments is how much of the arguments of a task is looked at, in bytes: no screen shows more.
const maxArguments = 1 << 10

// arguments writes the arguments of a task for people.
func arguments(t *tasks.Task) string {
	var words []string
	size := 0
	for it := rawjson.Over(t.Arguments); it.Next() && size < maxArguments; {
		value := string(it.Value[:min(len(it.Value), maxArguments)])
		if strings.HasPrefix(value, `"`) && len(it.Value) <= maxArguments {
			value = rawjson.Unquote(it.Value)
		}
		words = append(words, string(it.Name)+"="+value)
		size += len(words[len(words)-1])
	}
	return strings.Join(words, " ")
}
