package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/rs/zerolog"

	"runnel/internal/serve"
	"runnel/internal/system"
	"runnel/internal/term"
	"runnel/partials/tracker"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tools"
	"runnel/tools/remote"
	"runnel/tools/text"
)

// progressToken names the one call of a process.
const progressToken = `"runnel-call"`

// call is one call of a tool, and how it is shown.
type call struct {
	i       *invocation
	o       *callOptions
	view    *term.View
	remote  *remote.Call
	tracker *tracker.Tracker // remote's
	asker   *term.Asker

	capabilities mcp.ClientCapabilities

	// Set by connect and find.
	client    *rpc.Client
	tool      *mcp.Tool
	arguments json.RawMessage

	// The last chunk of the output (PR #383). It has what the result says beyond the output, and its result
	// says whether that is an error.
	mu       sync.Mutex
	lastCome bool
	held     []json.RawMessage

	began time.Time
	// When the first content came, in Unix nanoseconds, perhaps before the call; 0 = none has come.
	first  atomic.Int64
	giveUp context.CancelCauseFunc // ends the context that the call runs in
}

func newCall(i *invocation, v *term.View, o *callOptions, giveUp context.CancelCauseFunc) *call {
	c := &call{i: i, o: o, view: v, giveUp: giveUp}
	c.asker = &term.Asker{Stdin: i.Stdin, View: v, Yes: o.yes}
	c.capabilities = remote.Capabilities(c.asks())
	if o.noTask {
		c.capabilities.Extensions = nil
	}
	c.remote = remote.New(remote.Options{
		Token:    json.RawMessage(progressToken),
		Whole:    o.output.Word == "json",
		NoErrors: true, // they do not belong on stdout
		Content:  c.content,
		Gap:      func(g tracker.Gap) { c.say(g.String()) },
		Task:     c.typedElsewhere,
		Status:   v.Say,
		Request:  c.request,
		Log:      i.Logger(),
	})
	c.tracker = c.remote.Tracker()
	return c
}

// typedElsewhere says how to type into a program on whose output a person looks here.
func (c *call) typedElsewhere(id string) {
	if c.i.Typed && term.IsTerminal(c.i.Stdin) {
		c.say(fmt.Sprintf("what you type here does not reach %s: "+
			"type into it in another terminal with runnel attach %s", c.tool.Name, id))
	}
}

// asks reports whether somebody can answer questions.
func (c *call) asks() bool {
	if c.o.askGiven && !c.o.yes {
		return c.o.ask
	}
	return c.o.yes || term.IsTerminal(c.i.Stdin)
}

// content shows output as it comes.
func (c *call) content(items []json.RawMessage, replaces bool) {
	c.first.CompareAndSwap(0, time.Now().UnixNano())
	if replaces {
		c.say("what follows replaces the output so far")
	}
	c.mu.Lock()
	last := c.lastCome
	if last {
		c.held = append(c.held, items...)
	}
	c.mu.Unlock()
	if !last {
		c.show(items, false)
	}
}

// release returns the last chunk, which was held back. What comes later is shown as it comes.
func (c *call) release() []json.RawMessage {
	c.mu.Lock()
	defer c.mu.Unlock()
	held := c.held
	c.lastCome, c.held = false, nil
	return held
}

// show writes content items to stdout, and to stderr what a command wrote there and what is an error.
func (c *call) show(items []json.RawMessage, isError bool) {
	for _, item := range items {
		said, isText, stderr := term.Item(item)
		if isError && !stderr && said != "" {
			said, stderr = strings.TrimSuffix(said, "\n")+"\n", true
		}
		if c.o.output.Word != "text" {
			c.view.Say(said)
		} else if err := c.view.Output(said, isText, stderr); !stderr {
			c.written(err)
		}
	}
}

// written ends the call if its output cannot be written, as when head has left.
func (c *call) written(err error) {
	if err != nil {
		c.giveUp(err)
	}
}

// say writes a warning to stderr.
func (c *call) say(words string) { c.i.Say(zerolog.WarnLevel, "runnel: "+words) }

// message takes each message of the server.
func (c *call) message(line []byte) {
	if c.o.output.Word == "ndjson" {
		c.written(c.view.Content(string(line) + "\n"))
	}
}

// notified takes the server's notifications, in order.
func (c *call) notified(method string, params json.RawMessage) {
	var p struct {
		Token           json.RawMessage `json:"progressToken"`
		Progress, Total float64
		Message         string
		PartialResult   struct{ LastChunk bool }
	}
	ours := method == "notifications/progress" && json.Unmarshal(params, &p) == nil &&
		string(p.Token) == progressToken
	if ours && p.PartialResult.LastChunk {
		c.mu.Lock()
		c.lastCome = true
		c.mu.Unlock()
	}
	if !c.o.detach {
		c.remote.Notification(method, params)
	}
	if method == "notifications/tasks/status" && !c.asks() {
		c.waits(params)
	}
	if ours {
		c.view.Progress(p.Progress, p.Total, p.Message)
	}
}

// waits says that the task waits for an answer that no one is asked for here.
func (c *call) waits(status json.RawMessage) {
	var t mcp.Task
	if json.Unmarshal(status, &t) == nil && t.Status == mcp.TaskInputRequired &&
		uuid.Validate(t.TaskID) == nil {
		c.say(fmt.Sprintf("there is no terminal here to ask you on: %s (answer with: runnel tasks answer %s)",
			term.Printable(t.StatusMessage), t.TaskID))
	}
}

// request answers the server's questions.
func (c *call) request(ctx context.Context, method string, params json.RawMessage) (any, error) {
	if method != "elicitation/create" {
		return nil, rpc.Errorf(mcp.CodeMethodNotFound, "method not found: %.100q", method)
	}
	return c.asker.Ask(ctx, params), nil
}

// run makes the call and shows it. ctx ends when the user interrupts it; wanted also ends when it times out
// or its output cannot be written.
func (c *call) run(ctx, wanted context.Context) error {
	c.began = time.Now()
	defer context.AfterFunc(ctx, func() {
		if why, ok := errors.AsType[system.SignalError](context.Cause(ctx)); ok &&
			syscall.Signal(why) != syscall.SIGINT {
			c.say("cancelling: " + why.Error())
			return
		}
		c.say("cancelling; press Ctrl-C again to leave without waiting")
	})()
	result, err := c.result(wanted)
	held := c.release()
	unasked := !c.asks() && wasNotAsked(result, held, err)
	switch {
	case err == nil && !c.o.detach:
		err = c.finish(result, held)
		if c.o.artifacts != "" {
			var r mcp.CallToolResult
			_ = json.Unmarshal(result, &r) // finish has said what is wrong with it
			err = cmp.Or(c.saveFiles(wanted, slices.Concat(held, r.Content)), err)
		}
	case !errors.As(err, new(*rpc.Error)): // whose message the chunk repeats
		c.show(held, false)
	}
	c.view.End()
	if unasked {
		c.say("there is no terminal here to ask you on: --yes confirms, and answers the tool's other " +
			"questions")
	}
	if took := time.Since(c.began); err == nil && !c.o.detach && c.view.Drawn() && took >= time.Second {
		c.i.Say(zerolog.InfoLevel, "completed, "+text.Seconds(took))
	}
	c.summarize(result, c.ending(ctx, wanted, err))
	return err
}

// ending is the error that the call ends with: why it was given up, if it was, else err.
func (c *call) ending(ctx, wanted context.Context, err error) error {
	timedOut := wanted.Err() == context.DeadlineExceeded
	switch cause := context.Cause(wanted); {
	case cause != nil && cause == context.Cause(ctx):
		return interrupted(ctx)
	case timedOut && c.client != nil: // else the error says which request was not answered
		return &failure{cause, exitTimeout}
	case timedOut:
		return &failure{err, exitTimeout}
	case errors.Is(cause, syscall.EPIPE):
		return exitError(exitUnread)
	case cause != nil:
		return fmt.Errorf("writing the output: %w", cause)
	}
	return err
}

// wasNotAsked reports whether a call failed because its client cannot ask.
func wasNotAsked(result json.RawMessage, held []json.RawMessage, err error) bool {
	var r mcp.CallToolResult
	if err == nil && json.Unmarshal(result, &r) == nil && r.IsError && r.Meta[mcp.MetaCommand] == nil {
		return bytes.Contains(slices.Concat(result, rawjson.Encode(held)), []byte(tools.ErrCannotAsk.Error()))
	}
	return err != nil && (strings.Contains(err.Error(), tools.ErrCannotAsk.Error()) ||
		strings.Contains(err.Error(), "required client capability: elicitation"))
}

// result makes the call and returns its result, nil for a detached call.
func (c *call) result(wanted context.Context) (json.RawMessage, error) {
	if c.o.detach {
		id, err := detach(wanted, c.client, c.tool.Name, c.arguments)
		if err == nil {
			c.written(c.view.Content(id + "\n"))
		}
		return nil, err
	}
	tool := c.tool
	call := &remote.Params{Tool: tool.Name, Arguments: c.arguments}
	_, takesTasks := c.client.Capabilities().Extensions[mcp.ExtensionTasks]
	switch {
	case c.o.mode.Word != "" && c.client.Era() == rpc.Handshake &&
		!c.client.Capabilities().Answers(mcp.ResponseMode(c.o.mode.Word)):
		return nil, fmt.Errorf("--mode %s does not go with this server, which does not declare that "+
			"response mode (SEP-1905): leave --mode out", c.o.mode.Word)
	case !c.o.noTask && remote.TakesTask(c.client, tool):
		call.Task = &mcp.TaskMetadata{}
		if c.o.mode.Word != "" {
			call.Task.ResponseModes = []mcp.ResponseMode{mcp.ResponseMode(c.o.mode.Word)}
		}
	case c.o.mode.Word != "" && c.client.Era() == rpc.Stateless:
		return nil, fmt.Errorf("%s cannot be called with --mode: the server speaks %s only, which has no "+
			"response modes", tool.Name, c.client.Version().Name)
	case c.o.task && c.client.Era() == rpc.Stateless && takesTasks:
		// the server decides whether it becomes a task
	case c.o.task || c.o.mode.Word != "":
		return nil, fmt.Errorf("%s cannot be called as a task: the server or the tool does not take it",
			tool.Name)
	}
	result, err := c.remote.Run(wanted, c.client, call)
	var e *rpc.Error
	switch {
	case errors.Is(err, rpc.ErrClosed):
		err = fmt.Errorf("connection lost: %w", c.client.Err())
	case errors.As(err, &e):
		err = fmt.Errorf("%s: %w", tool.Name, err)
	}
	return result, err
}

// finish shows what the result adds to the streamed output, and turns it into an exit code. held is the last
// chunk, which is not shown yet. An error is shown on stderr, unless it is the output of a command.
func (c *call) finish(raw json.RawMessage, held []json.RawMessage) error {
	var r mcp.CallToolResult
	if err := json.Unmarshal(raw, &r); err != nil {
		if _, partly := errors.AsType[*json.UnmarshalTypeError](err); !partly {
			return fmt.Errorf("reading the result: %w", err)
		}
	}
	isError := r.IsError && r.Meta[mcp.MetaCommand] == nil
	running := remote.HandedOver(raw) // a task that this version of the protocol cannot follow
	if running != "" && len(r.Content) > 0 {
		r.Content = r.Content[1:] // a sentence for a model; what follows is output
	}
	switch c.o.output.Word {
	case "json":
		var line bytes.Buffer
		if err := json.Compact(&line, raw); err != nil {
			return fmt.Errorf("reading the result: %w", err)
		}
		c.written(c.view.Content(line.String() + "\n"))
	case "text":
		last, content := tools.SplitEnd(&mcp.CallToolResult{Content: held, IsError: r.IsError, Meta: r.Meta}),
			tools.SplitEnd(&r)
		_, command := r.Command()
		if command { // stdout is its output
			var made, later []mcp.ContentBlock // either has them
			last, made = tools.SplitFiles(last)
			content, later = tools.SplitFiles(content)
			if c.o.artifacts == "" {
				defer c.show(append(made, later...), true)
			}
		}
		c.show(last, isError)
		compared, beyond := c.tracker.Compare(content)
		// All of its output has been streamed.
		if command && compared != tracker.NoneStreamed && !c.remote.CutShort() {
			compared = tracker.ResultAdds
			_, beyond = c.tracker.Compare(tools.OnlyEnd(content))
		}
		switch compared {
		case tracker.NoneStreamed, tracker.ResultAdds:
			c.show(beyond, isError)
		case tracker.Different:
			if c.tracker.Stats().Gaps > 0 {
				c.say("the result is not what was streamed; -o json shows it")
				break
			}
			// The stream showed the work; the result is its outcome.
			c.view.NewLine()
			c.show(content, isError)
		}
	}
	if running != "" {
		c.view.NewLine()
		return fmt.Errorf("%s takes longer than the server waits: it is still running, as task %s, which "+
			"protocol %s cannot follow; "+
			"speak a newer one, or start the server with --sync-wait 0", c.tool.Name, running,
			c.client.Version().Name)
	}
	if isError { // what is on stdout is not a command's output, which is shown as it is
		c.view.NewLine()
	}
	return exitOf(&r)
}

// exitOf turns a result into an exit code: the command's, or as a shell has it for one that a signal ended;
// else 0, or 1 for an error.
func exitOf(r *mcp.CallToolResult) error {
	var ended struct {
		ExitCode int
		Signal   string
		TimedOut bool
	}
	if of := r.Meta[mcp.MetaCommand]; of == nil || json.Unmarshal(rawjson.Encode(of), &ended) != nil {
		_ = json.Unmarshal(r.StructuredContent, &ended) // most results have none
	}
	switch number := system.SignalNumber(ended.Signal); {
	case ended.TimedOut:
		return exitError(exitTimeout)
	case number > 0:
		return exitError(exitSignal + number)
	case ended.ExitCode&0xff != 0:
		return exitError(ended.ExitCode & 0xff)
	case r.IsError:
		return exitError(exitFailure)
	}
	return nil
}

// summarize says on stderr how much output came.
func (c *call) summarize(raw json.RawMessage, err error) {
	if !c.o.summary {
		return
	}
	var r mcp.CallToolResult
	_ = json.Unmarshal(raw, &r)
	stats := c.tracker.Stats()
	end, _ := c.tracker.End()
	said := "no result"
	if raw != nil {
		compared, _ := c.tracker.Compare(tools.SplitEnd(&r))
		said = compared.String()
	}
	code := exitFine
	if err != nil {
		code = exitCodeOf(err)
	}
	first := max(0, time.Unix(0, c.first.Load()).Sub(c.began))
	c.i.Say(zerolog.InfoLevel, fmt.Sprintf("%d partials, gaps %d, first after %d ms; %d bytes, %s; exit "+
		"code %d, %v after %d ms",
		stats.Partials, stats.Gaps, first.Milliseconds(), stats.Bytes, said, code, end,
		time.Since(c.began).Milliseconds()))
}

// callOptions are the flags of runnel call.
type callOptions struct {
	object    string // --input: JSON, @FILE or @-
	task      bool
	noTask    bool
	mode      *serve.Choice
	output    *serve.Choice
	progress  *serve.Choice
	timeout   time.Duration
	ask       bool
	yes       bool
	summary   bool
	protocol  *serve.Choice
	detach    bool
	artifacts string // the directory for the files of the result; "" = they are not saved
	askGiven  bool
	arguments []string
}
