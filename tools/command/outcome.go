package command

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"runnel/internal/shorten"
	"runnel/internal/system"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
	"runnel/tools"
	"runnel/tools/config"
	"runnel/tools/process"
	"runnel/tools/schema"
	"runnel/tools/text"
)

// lastBytes is how much of the end of the output is read for what a sandbox has refused, and for a status
// message, which can hold less. Memory
// keeps more.
const lastBytes = 4 << 10

// maxVerdict bounds what went wrong, in bytes: there must be room beside it in the smallest result and in a
// status message. The name of a property in outputSchema can make it long.
const maxVerdict = 512

// outcome is how a command ended, and its output. Its members are the result's _meta["runnel/command"].
type outcome struct {
	ExitCode    *int   `json:"exitCode"` // nil: a signal ended it, or it is unknown
	Signal      string `json:"signal"`
	DurationMs  int64  `json:"durationMs"`
	StdoutBytes int64  `json:"stdoutBytes"`
	StderrBytes int64  `json:"stderrBytes"`
	Truncated   bool   `json:"truncated"`
	TimedOut    bool   `json:"timedOut"`

	verdict string // what went wrong; "" if nothing did
	unready string // of a tool that should have become ready, and has not: the words for it
	timed   bool   // the last line also says how long the command took
	bounds  string // what its sandbox has refused, or what that of a command that failed allows; "" = nothing
	*record
}

// outcome returns the outcome of a run whose streams have ended.
func (r *record) outcome(e process.Ending, took time.Duration) *outcome {
	o := &outcome{
		DurationMs:  took.Milliseconds(),
		StdoutBytes: r.stdout.bytes,
		StderrBytes: r.stderr.bytes,
		Truncated:   r.out.Log().Size() > int64(*r.config.MaxOutput), // the state keeps head and tail
		TimedOut:    e.Stop == process.TimedOut || e.Stop == process.Idle,
		record:      r,
	}
	if e.State != nil {
		o.ExitCode, o.Signal = exitOf(e.Status)
	} else if e.Unknown == nil {
		o.Signal = "SIGKILL"
	}
	switch {
	case e.Stop == process.TimedOut:
		o.verdict = "timed out after " + config.Duration(e.Limit).String()
	case e.Stop == process.Idle:
		o.verdict = "no output for " + config.Duration(e.Limit).String()
	case e.Unknown != nil:
		o.verdict = fmt.Sprintf("it has ended, but the system does not tell how: %v", e.Unknown)
	case o.Signal != "":
		o.verdict, o.timed = "killed by "+o.Signal, true
	case !slices.Contains(r.config.OkExitCodes, *o.ExitCode):
		o.verdict, o.timed = fmt.Sprintf("exit code %d", *o.ExitCode), true
	}
	if w := r.watcher; r.config.Ready != "" && !w.ready {
		o.unready = "ended before it was ready: "
		if o.failed() {
			o.verdict = o.unready + o.verdict
		}
	}
	if e.State == nil && e.Unknown == nil {
		o.verdict += fmt.Sprintf("; it has not ended %v after KILL", process.KillWait)
		o.timed = false
	}
	return o
}

// exitOf returns the exit code of a process that has ended, or the name of the signal that ended it.
func exitOf(status syscall.WaitStatus) (code *int, signal string) {
	if !status.Signaled() {
		return new(status.ExitStatus()), ""
	}
	return nil, cmp.Or(system.SignalName(status.Signal()), fmt.Sprintf("signal %d", status.Signal()))
}

func (o *outcome) failed() bool { return o.verdict != "" }

// fail makes the outcome a failure, unless it already is one.
func (o *outcome) fail(verdict string) {
	o.verdict = cmp.Or(o.verdict, shorten.Clip(verdict, maxVerdict))
}

// lastLine says how the command ended; "" if its output is enough.
func (o *outcome) lastLine() string {
	bounds := o.bounds
	if bounds != "" {
		bounds = " " + bounds
	}
	switch {
	case o.timed:
		return o.verdict + " after " + o.took() + bounds
	case o.failed():
		return o.verdict + bounds
	case o.unready != "":
		return fmt.Sprintf("%sexit code %d after %s%s", o.unready, *o.ExitCode, o.took(), bounds)
	case o.stdout.kept.Size() == 0 && o.stderr.kept.Size() == 0:
		return tools.SilentEnd(*o.ExitCode) + bounds
	}
	return ""
}

// took returns how long the command took, for a model.
func (o *outcome) took() string { return text.Seconds(time.Duration(o.DurationMs) * time.Millisecond) }

// end returns the last line as a separate item, for a client that has received the output already.
func (o *outcome) end() []mcp.ContentBlock {
	line := o.lastLine()
	switch {
	case line == "":
		return nil
	case o.stdout.open:
		line = "\n" + line
	}
	return []mcp.ContentBlock{tools.StreamText(line, mcp.StreamEnd)}
}

// result returns the tool's result: the output as text, then the last line. left words what is left out.
func (o *outcome) result(left func(text.Gap) string) *mcp.CallToolResult {
	last := o.lastLine()
	budget := o.most
	if o.config.Structured != config.StructuredNone {
		budget = min(budget, int(maxStructured-config.MinMaxResult))
	}
	if last != "" {
		budget -= len(last) + len(`\n`)
	}
	outMax, errMax := budget, 0
	if need := min(o.stderr.kept.Size(), budget); need > 0 {
		errMax = min(need, max(budget/2, budget-o.stdout.kept.Size()))
		outMax = budget - errMax
	}
	first, cut := o.stdout.kept.Text(outMax, left)
	second, secondCut := o.stderr.kept.Text(errMax, left)
	o.Truncated = o.Truncated || cut || secondCut

	result := &mcp.CallToolResult{IsError: o.failed()}
	shown := first
	if last != "" {
		if shown != "" && !strings.HasSuffix(shown, "\n") {
			shown += "\n"
		}
		shown += last
	}
	if shown != "" {
		result.Content = append(result.Content, mcp.Text(shown))
	}
	if second != "" {
		result.Content = append(result.Content, tools.StreamText(second, mcp.StreamStderr))
	}
	result.StructuredContent = o.structured(first + second)
	result.Meta = map[string]any{mcp.MetaCommand: rawjson.Encode(o)}
	return result
}

// statusMessage returns the verdict and the last lines of output. Many hosts show nothing else of a failed
// task.
func (o *outcome) statusMessage() string {
	room := tasks.MaxStatusMessage - len(o.verdict) - len("\n")
	tail := text.LastLines(o.last(), room)
	if tail == "" {
		return o.verdict
	}
	return o.verdict + "\n" + tail
}

// last returns the end of the output.
func (r *record) last() (end []byte) {
	for _, chunk := range r.out.Log().Tail(lastBytes).Chunks() {
		end = append(end, chunk.Data...)
	}
	return end
}

// structured returns the result's structuredContent, nil if it has none. An error has no printed JSON, which
// hosts would show instead of what went wrong.
func (o *outcome) structured(output string) json.RawMessage {
	switch {
	case o.config.Structured == config.StructuredSummary:
		return rawjson.Encode(struct {
			Output string `json:"output"`
			*outcome
		}{output, o})
	case o.config.Structured == config.StructuredJSON && !o.failed():
		return bytes.TrimSpace(o.stdout.exact.text)
	}
	return nil
}

// check fails a command that should have printed JSON and has not.
func (o *outcome) check(outputs *schema.Checker) {
	if o.stdout.exact == nil || o.failed() {
		return
	}
	if err := o.stdout.exact.check(outputs); err != nil {
		o.fail("its output is not the expected JSON: " + err.Error())
	}
}

// maxStructured is the longest structuredContent, in bytes of JSON. The result has the same as text, too.
const maxStructured = mcp.MaxContent / 2

// summarySchema describes the structuredContent of a summary. It has no required properties, because a call
// that is handed over returns taskId, status and next instead.
var summarySchema = json.RawMessage(`{"type":"object","properties":{` +
	`"output":{"type":"string","description":"what the command printed"},` +
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

// wholeText keeps all of a text, up to maxStructured.
type wholeText struct {
	text []byte
	long bool
}

func (w *wholeText) add(text []byte) {
	w.text = append(w.text, text[:min(len(text), maxStructured-len(w.text))]...)
	w.long = w.long || len(w.text) == maxStructured
}

// check returns an error, with its place, if the text is not a JSON object that fits the schema; nil = any
// object does.
func (w *wholeText) check(outputs *schema.Checker) error {
	if w.long {
		return fmt.Errorf("it is too long: the limit is %d bytes", maxStructured)
	}
	object := bytes.TrimSpace(w.text)
	if len(object) == 0 {
		return errors.New("it is empty")
	}
	var value json.RawMessage
	if err := json.Unmarshal(w.text, &value); err != nil {
		var syntax *json.SyntaxError
		if !errors.As(err, &syntax) {
			return err
		}
		before := w.text[:min(max(int(syntax.Offset)-1, 0), len(w.text))]
		line := bytes.Count(before, []byte("\n")) + 1
		column := len(before) - bytes.LastIndexByte(before, '\n')
		return fmt.Errorf("line %d, column %d: %w", line, column, err)
	}
	if object[0] != '{' {
		return errors.New("line 1, column 1: expected an object, {...}")
	}
	if outputs == nil {
		return nil
	}
	return outputs.Check(object)
}
