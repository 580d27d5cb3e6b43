package tools

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"runnel/rpc/mcp"
	"runnel/tools/text"
)

// commandOutputSchema describes the structuredContent of a command. It requires nothing, and allows what
// a call that is handed over says instead.
var commandOutputSchema = json.RawMessage(`{"type":"object","properties":{` +
	`"exitCode":{"type":["integer","null"],"description":"null when a signal ended the command"},` +
	`"signal":{"type":"string","description":"the signal that ended the command, such as SIGTERM, or empty"},` +
	`"durationMs":{"type":"integer"},` +
	`"stdoutBytes":{"type":"integer"},` +
	`"stderrBytes":{"type":"integer"},` +
	`"truncated":{"type":"boolean","description":"whether output was left out"},` +
	`"timedOut":{"type":"boolean"},` +
	`"taskId":{"type":"string"},` +
	`"status":{"type":"string"},` +
	`"next":{"type":"integer"}}}`)

// maxStatusMessage is how long a status message may be, in bytes.
const maxStatusMessage = 2 << 10

// outcome is how a command ended, and its output.
type outcome struct {
	ExitCode    *int   `json:"exitCode"`
	Signal      string `json:"signal"`
	DurationMs  int64  `json:"durationMs"`
	StdoutBytes int64  `json:"stdoutBytes"`
	StderrBytes int64  `json:"stderrBytes"`
	Truncated   bool   `json:"truncated"`
	TimedOut    bool   `json:"timedOut"`

	verdict string // what went wrong, empty for a good end
	stdout  *text.Shaper
	stderr  *text.Shaper
	max     int
	last    []byte
}

// outcome is called when the streams have ended.
func (r *record) outcome(e ending, took time.Duration) *outcome {
	o := &outcome{
		DurationMs:  took.Milliseconds(),
		StdoutBytes: r.stdout.bytes,
		StderrBytes: r.stderr.bytes,
		Truncated:   r.streamed > *r.config.MaxOutput, // the store keeps the head and the tail
		TimedOut:    e.stop == stopTimeout || e.stop == stopIdle,
		stdout:      &r.stdout.kept,
		stderr:      &r.stderr.kept,
		max:         int(*r.config.MaxResult),
		last:        r.last,
	}
	if e.state == nil {
		o.Signal = "SIGKILL"
	} else if status, ok := e.state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		o.Signal = unix.SignalName(status.Signal())
		if o.Signal == "" {
			o.Signal = fmt.Sprintf("signal %d", status.Signal())
		}
	} else {
		o.ExitCode = new(e.state.ExitCode())
	}
	switch {
	case e.stop == stopTimeout:
		o.verdict = "timed out after " + Duration(e.limit).String()
	case e.stop == stopIdle:
		o.verdict = "no output for " + Duration(e.limit).String()
	case o.Signal != "":
		o.verdict = "killed by " + o.Signal
	case !slices.Contains(r.config.OkExitCodes, *o.ExitCode):
		o.verdict = fmt.Sprintf("exit code %d", *o.ExitCode)
	}
	if e.state == nil {
		o.verdict += fmt.Sprintf("; it is not gone %v after KILL", killWait)
	}
	return o
}

func (o *outcome) failed() bool { return o.verdict != "" }

// result is the tool's result: the output as text, exactly if the command ended well and it fits; with the
// verdict on a line of its own behind it if not, since some clients show a model nothing but content.
func (o *outcome) result() *mcp.CallToolResult {
	budget := o.max
	if o.failed() {
		budget -= len(o.verdict) + len(`\n\n`)
	}
	outMax, errMax := budget, 0
	if need := min(o.stderr.Size(), budget); need > 0 {
		errMax = min(need, max(budget/2, budget-o.stdout.Size()))
		outMax = budget - errMax
	}
	first, cut := o.stdout.Text(outMax, text.LeftOut)
	second, secondCut := o.stderr.Text(errMax, text.LeftOut)
	o.Truncated = o.Truncated || cut || secondCut
	if o.failed() {
		if first != "" && !strings.HasSuffix(first, "\n") {
			first += "\n"
		}
		first += o.verdict + "\n"
	}

	result := mcp.Result(first)
	if second != "" {
		result.Content = append(result.Content, encode(mcp.TextContent{Type: "text", Text: second, Meta: map[string]any{mcp.MetaStream: "stderr"}}))
	}
	result.IsError = o.failed()
	result.StructuredContent = encode(o)
	return result
}

// statusMessage is the verdict and the last lines of output: all that many hosts show of a task that failed.
func (o *outcome) statusMessage() string {
	room := maxStatusMessage - len(o.verdict) - len("\n")
	tail := lastLines(o.last, room)
	if tail == "" {
		return o.verdict
	}
	return o.verdict + "\n" + tail
}

// lastLines returns the end of a text in most bytes or less: whole lines if there are any, each as a terminal
// would show it in the end (what follows its last \r), without escape sequences.
func lastLines(text []byte, most int) string {
	text = stripANSI(bytes.ToValidUTF8(text, nil))
	lines := strings.Split(strings.TrimRight(string(text), " \t\r\n"), "\n")
	for i, line := range lines {
		line = strings.TrimRight(line, "\r")
		lines[i] = line[strings.LastIndexByte(line, '\r')+1:]
	}
	s := strings.Join(lines, "\n")
	if len(s) <= most {
		return s
	}
	from := len(s) - most
	if i := strings.IndexByte(s[from-1:], '\n'); i >= 0 {
		return s[from+i:]
	}
	s = s[from:]
	for len(s) > 0 && !utf8.RuneStart(s[0]) {
		s = s[1:]
	}
	return s
}
