package notify

import (
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"runnel/internal/shorten"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tools/config"
	"runnel/tools/secrets"
	"runnel/tools/text"
)

// notice describes the end of a task, or what one that goes on has found in its output. Its JSON is what a
// url gets.
type notice struct {
	Task    string  `json:"task"`
	Tool    string  `json:"tool"`
	Status  string  `json:"status"`
	Seconds float64 `json:"seconds"`
	Message string  `json:"message"` // one line: why it failed, or the last line of its output
	Host    string  `json:"host"`

	took time.Duration
}

const (
	maxMessage = 300     // bytes: a desktop shows about two lines
	maxTool    = 128     // bytes: names of runnel's own tools are not longer
	maxLine    = 4 << 10 // bytes at the end of a result that are searched for its last line
)

func newNotice(t *tasks.Task, hidden *secrets.Set) *notice {
	took := t.UpdatedAt.Sub(t.CreatedAt)
	host, _ := os.Hostname() // "" if it is unknown
	clean := func(s string, most int) string {
		return shorten.Clip(strings.TrimSpace(text.Printable(string(text.StripANSI([]byte(hidden.String(s)))))), most)
	}
	status := string(t.Status)
	if !t.Status.Terminal() {
		status = config.OnMatch
	}
	return &notice{
		Task: t.ID, Tool: clean(t.Tool, maxTool), Status: status,
		Seconds: math.Round(took.Seconds()*1000) / 1000, Message: clean(message(t), maxMessage), Host: host,
		took: took,
	}
}

// message returns why a task failed, with its last line of output; what one that goes on has found; for any
// other task, the last line of its result.
func message(t *tasks.Task) string {
	if !t.Status.Terminal() {
		return t.Matches.Message()
	}
	if said := lines(t.StatusMessage); len(said) > 1 {
		return said[0] + ": " + said[len(said)-1]
	} else if len(said) == 1 {
		return said[0]
	}
	if t.Outcome == nil || t.Outcome.Result == nil {
		return ""
	}
	for _, item := range slices.Backward(t.Outcome.Result.Content) {
		s, _ := mcp.TextOf(item)
		if said := lines(s[max(len(s)-maxLine, 0):]); len(said) > 0 {
			return said[len(said)-1]
		}
	}
	return ""
}

// lines returns the lines of a text that are not blank, as a terminal would show them.
func lines(s string) (list []string) {
	for line := range strings.Lines(text.LastLines([]byte(s), len(s))) {
		if line = strings.TrimSpace(line); line != "" {
			list = append(list, line)
		}
	}
	return list
}

// title returns the notice in a few words. It never begins with words of a stranger.
func (n *notice) title() string {
	ended := map[string]string{"completed": "completed", "failed": "failed", "cancelled": "was cancelled",
		config.OnMatch: "has a match"}[n.Status]
	return "runnel: " + n.Tool + " " + ended + " after " + text.Seconds(n.took)
}

// statusVariable is set only for the commands of notices.
const statusVariable = "RUNNEL_TASK_STATUS"

// variables returns the notice as variables for a command.
func (n *notice) variables() map[string]string {
	return map[string]string{
		"RUNNEL_TASK_ID":      n.Task,
		"RUNNEL_TASK_TOOL":    n.Tool,
		statusVariable:        n.Status,
		"RUNNEL_TASK_SECONDS": strconv.FormatFloat(n.Seconds, 'f', -1, 64),
		"RUNNEL_TASK_MESSAGE": n.Message,
	}
}
