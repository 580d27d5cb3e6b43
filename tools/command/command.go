package command

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"runnel/internal/shorten"
	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
	"runnel/tools"
	"runnel/tools/config"
	"runnel/tools/inputs"
	"runnel/tools/process"
	"runnel/tools/sandbox"
	"runnel/tools/schema"

	"github.com/creack/pty"
)

// Command is a tool that runs a program and streams what it prints.
//
// The child runs in its own process group. The group is stopped (TERM, the grace, KILL) when the call's
// context ends, at both timeouts, and when the child itself has ended. Call returns when the whole group is
// gone, at the latest 2 s after KILL, even if another process still holds the output pipe.
type Command struct {
	name   string
	config config.Command // defaults filled in
	in     *inputs.Inputs
	argv   []word
	stdin  *inputs.Template // nil = the null device
	asks   *inputs.Template // the question before a call; nil = none
	dir    string
	env    func() []string

	sandbox *sandbox.Policy // nil = the command may do all that runnel may
	// Resolves the names of hosts that it reaches through a proxy; nil = the system, tests have another.
	lookup lookup

	outputSchema json.RawMessage // nil = none
	outputs      *schema.Checker // checks the printed JSON; nil = any object is valid

	slots chan struct{}  // holds one element per running call; nil = no limit
	queue *process.Slots // in a supervisor, instead of slots: counts the calls of all processes
}

var _ tools.Kind = (*Command)(nil)

// Describe returns the entry of tools/list.
func (c *Command) Describe() mcp.Tool {
	return mcp.Tool{
		Name:         c.name,
		Title:        c.config.Title,
		Description:  cmp.Or(c.config.Description, commandLine(&c.config)),
		InputSchema:  c.in.Schema,
		OutputSchema: c.outputSchema,
		Annotations:  c.config.Annotations,
		Meta:         c.config.Meta,
		// streamPartial is about the tool "when invoked as a task" (SEP-2679, 3).
		Execution: &mcp.ToolExecution{TaskSupport: c.config.Task,
			StreamPartial: c.config.Task != mcp.TaskForbidden},
	}
}

// exitNotFound is the exit code of a command that is not there, as shells have it.
const exitNotFound = 127

// Call runs the command once. If the command cannot be started or fails, the result has isError. Call returns
// an error only if ctx ends before the command begins, or if the user cannot be asked to confirm.
func (c *Command) Call(ctx context.Context, in *tools.Call, out *tools.Output) (*mcp.CallToolResult, error) {
	args, err := c.arguments(in.Arguments)
	if err != nil {
		return mcp.ErrorResult(err.Error()), nil
	}
	if c.OnWorkers() {
		return c.offer(ctx, in, out, args)
	}
	spec, err := c.prepare(args)
	if err != nil {
		result := mcp.ErrorResult(err.Error())
		if errors.Is(err, fs.ErrNotExist) {
			result.Meta = map[string]any{mcp.MetaCommand: rawjson.Encode(&outcome{ExitCode: new(exitNotFound)})}
		}
		return result, nil
	}
	if refused, err := c.confirm(ctx, in, args); refused != nil || err != nil {
		return refused, err
	}
	if c.config.Detach == config.DetachAlways || in.Outlives() {
		err := c.detach(ctx, in, out)
		if err == nil || c.config.Detach == config.DetachAlways {
			return nil, err
		}
		in.Log().Warn().Err(err).Str("taskId", in.TaskID).Msg("a command ends with runnel")
	}
	leave, err := c.enter(ctx, in, out)
	if leave == nil {
		return nil, err
	}
	defer leave()
	if err := in.Begin(ctx); err != nil {
		return nil, err
	}
	return c.attempts(ctx, in, out, spec), nil
}

// confirm asks the user whether to run the command. If the answer is no, it returns the call's result.
func (c *Command) confirm(ctx context.Context, in *tools.Call, args inputs.Arguments) (*mcp.CallToolResult, error) {
	if c.asks == nil {
		return nil, nil
	}
	question := c.asks.Fill(func(name string) string { return args[name].Quoted() })
	return in.Confirm(ctx, c.name, question, c.config.ConfirmFallback == "run")
}

// prepare fills in the placeholders and finds the program.
func (c *Command) prepare(args inputs.Arguments) (s *process.Spec, err error) {
	s = &process.Spec{Dir: c.dir, Env: slices.Clip(c.env()), Open: c.config.TakesInput(), Pty: c.config.Pty,
		Stderr: c.config.Stderr, Script: c.config.Shell != ""}
	if columns, rows, ok := c.config.TerminalSize(); ok {
		s.Size = pty.Winsize{Rows: uint16(rows), Cols: uint16(columns)}
	}
	if s.Argv, err = expand(c.in, c.argv, args); err != nil {
		return nil, err
	}
	if len(c.argv[0].Names) > 0 {
		if first, err := expand(c.in, c.argv[:1], args); err != nil || len(first) == 0 || first[0] == "" {
			return nil, errors.New("the argument that names the command to run has no value")
		}
	}
	if c.config.Shell != "" {
		for _, name := range c.in.Names {
			if a, ok := args[name]; ok {
				s.Env = append(s.Env, name+"="+a.Joined())
			}
		}
	}
	if c.stdin != nil {
		s.Stdin = new(c.stdin.Fill(func(name string) string { return args[name].Joined() }))
	}
	s.Path, err = c.find(s.Argv[0])
	return s, err
}

// Program returns the path of the program that a call would start; "" if an argument names it, or workers run
// it.
func (c *Command) Program() (string, error) {
	if c.OnWorkers() || len(c.argv[0].Names) > 0 {
		return "", nil
	}
	return c.find(c.argv[0].Text)
}

// find looks up a program from the directory where the command runs, which must exist.
func (c *Command) find(program string) (string, error) {
	if info, err := os.Stat(c.dir); err != nil || !info.IsDir() {
		if err == nil {
			err = syscall.ENOTDIR
		}
		return "", fmt.Errorf("cannot start %s: directory %s: %w", program, c.dir, process.RootCause(err))
	}
	path, _ := process.LookupEnv(c.env(), "PATH")
	return process.FindProgram(program, c.dir, path)
}

// enter takes a slot of maxConcurrent, which leave frees. It waits instead of failing, so that a model that
// calls a tool twice at once gets both answers, one after the other. The timeouts begin with the command, not
// with the wait. leave is nil if the call was handed back.
func (c *Command) enter(ctx context.Context, in *tools.Call, out *tools.Output) (leave func(), err error) {
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case c.queue != nil:
		return c.queue.Enter(ctx)
	case c.slots == nil:
		return func() {}, nil
	}
	leave = func() { <-c.slots }
	select {
	case c.slots <- struct{}{}:
		return leave, nil
	default:
	}
	out.Progress(0, 0, fmt.Sprintf("waiting: %s runs at most %d at once", c.name, c.config.MaxConcurrent))
	for leaving := in.Leaving(); ; {
		select {
		case c.slots <- struct{}{}:
			return leave, nil
		case <-leaving:
			if in.HandBack(ctx, c.asks != nil) == nil {
				return nil, nil
			}
			leaving = nil
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for another call of %s to end: %w", c.name, context.Cause(ctx))
		}
	}
}

// maxResult returns the limit that the config gives the result's text, in bytes; 0 if it gives none.
func (c *Command) maxResult() int {
	if c.config.MaxResult == nil {
		return 0
	}
	return int(*c.config.MaxResult)
}

// mayDetach reports whether a call outlives this process if its client comes back for it. One whose client
// types into it has this session; a server would hold its port when its host has left.
func (c *Command) mayDetach() bool {
	return c.config.Detach == config.DetachAuto && !c.OnWorkers() && !c.config.TakesInput() &&
		c.config.Ready == ""
}

// Traits implements tools.Kind.
func (c *Command) Traits() tools.Traits {
	return tools.Traits{
		Grace:      time.Duration(*c.config.Grace),
		Longest:    time.Duration(c.config.Timeout) * time.Duration(1+c.config.Retry.Times),
		Serves:     c.config.Ready != "",
		Detached:   c.config.Detach == config.DetachAlways || c.OnWorkers(),
		MayDetach:  c.mayDetach(),
		TakesInput: c.config.TakesInput(),
		Screen:     c.screen(),
		Confirms:   c.asks != nil,
		AtOnce:     c.config.MaxConcurrent,
		Repeatable: c.config.Idempotent || c.config.Retry.Times > 0,
		MaxResult:  c.maxResult(),
		KeepFrames: c.config.ANSI == "keep",
	}
}

// Replace implements tools.Kind. Running calls of the previous command keep their slots if the limit is the
// same.
func (c *Command) Replace(before tools.Tool) {
	if b, ok := before.(*Command); ok && cap(b.slots) == cap(c.slots) {
		c.slots = b.slots
	}
}

// maxCommandLine is how much of a command line describes its tool, in bytes.
const maxCommandLine = 500

// commandLine returns the command as one would type it into a shell. It describes a tool whose config has no
// description, to models and to the machines of a fleet: what a script does is not for them.
func commandLine(f *config.Command) string {
	if f.Shell == "" && len(f.Command) == 0 {
		return "runs on a worker of class " + f.Runs
	}
	if f.Shell != "" {
		return "runs a shell script"
	}
	words := make([]string, len(f.Command))
	script := false // the next word may be one, as that after sh -c
	for i, word := range f.Command {
		// A placeholder stays as it is, unlike in go-shellquote: people and models read this.
		switch words[i] = word; {
		case script && strings.ContainsAny(word, " \t\n"):
			words[i] = "…"
		case word == "" || strings.ContainsAny(word, " \t\n'\"\\$`|&;<>()*?#~"):
			words[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		script = strings.HasPrefix(word, "-") && !strings.Contains(word, "=")
	}
	return shorten.Clip(strings.Join(words, " "), maxCommandLine)
}

// OnWorkers reports whether workers run the command.
func (c *Command) OnWorkers() bool { return c.config.Runs != "" }

// offer lets a worker run a call. The user is asked before, because later, when a worker is free, no one may
// be there to answer.
func (c *Command) offer(ctx context.Context, in *tools.Call, out *tools.Output,
	args inputs.Arguments) (*mcp.CallToolResult, error) {
	if refused, err := c.confirm(ctx, in, args); refused != nil || err != nil {
		return refused, err
	}
	o := tasks.Offer{
		Class: c.config.Runs, Priority: tasks.Priority(c.config.Priority), Confirmed: c.asks != nil,
		Timeout: time.Duration(*c.config.QueueTimeout), Retries: c.config.Retry.Times,
	}
	if err := in.Offer(ctx, o, c.follow(out)); err != nil {
		return nil, fmt.Errorf("%s cannot be run by a worker: %w", c.name, err)
	}
	return nil, nil
}

// follow returns a function that reads progress from the output of a call that runs elsewhere; nil if the
// command reports no progress.
func (c *Command) follow(out *tools.Output) func(context.Context, *partials.Reader) {
	pattern := c.config.Progress
	if pattern == "" {
		return nil
	}
	return func(ctx context.Context, output *partials.Reader) {
		scanMarks(ctx, output, newProgressMarks(pattern, out.Progress))
	}
}

// detach hands a call to a supervisor.
func (c *Command) detach(ctx context.Context, in *tools.Call, out *tools.Output) error {
	if err := in.Detach(ctx, c.recipe(), c.follow(out)); err != nil {
		return fmt.Errorf("%s cannot be detached: %w", c.name, err)
	}
	return nil
}

// scanMarks looks for progress in the output of a call that runs elsewhere.
func scanMarks(ctx context.Context, output *partials.Reader, marks *progressMarks) {
	for output.Wait(ctx, 1) == nil {
		if b, ok := output.Next(lineBytes); ok {
			for _, chunk := range b.Chunks() {
				marks.scan(chunk.Data)
			}
		}
	}
}

// lineBytes is how much output scanMarks reads at once.
const lineBytes = 4 << 10

// recipe returns the command for the supervisor of a call.
func (c *Command) recipe() *Recipe {
	r := &Recipe{Tool: c.name, Config: c.config, Dir: []byte(c.dir),
		Env: []byte(strings.Join(c.env(), "\x00"))}
	// Dir and Env hold all that is needed of them
	r.Config.Detach = config.DetachNever
	r.Config.Confirm = ""
	r.Config.Dir = ""
	r.Config.Command = nil
	r.Config.Notify = nil
	for _, element := range c.config.Command {
		r.Command = append(r.Command, []byte(element))
	}
	return r
}
