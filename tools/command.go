package tools

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"runnel/rpc/mcp"
)

// Environment is what the commands of one configuration find around them.
type Environment struct {
	Dir  string   // where commands run, and what a relative "dir" starts from; "" = runnel's own directory
	Vars []string // "NAME=value"; nil = runnel's own environment

	Version string // of runnel, for upstreams
}

// Command is a tool that runs a program and streams what it prints.
//
// The child runs in a process group of its own. It is stopped (TERM to the group, the grace, KILL to the
// group) when the call's context ends and at both timeouts; what is left of its group when it has ended by
// itself is stopped too. Call returns when the whole group is gone, whoever still holds the output pipe.
type Command struct {
	name   string
	config CommandConfig // defaults filled in
	in     *inputs
	argv   []template
	stdin  *template // nil = the null device
	asks   *template // nil = the user is not asked
	dir    string
	env    []string
	marks  func() *regexp.Regexp // "progress"; of none, it is nil

	slots chan struct{} // holds one element per running call; nil = no limit
	queue *queue        // of a supervisor: instead of slots, for the calls in all processes
}

var _ Tool = (*Command)(nil)

// NewCommand checks a configuration and makes the tool. What is wrong with it is a *ConfigError.
func NewCommand(name string, config CommandConfig, env Environment) (*Command, error) {
	in, err := parseInputs(config.Input, config.Required)
	if err != nil {
		return nil, err
	}
	return newCommand(name, config, in, env)
}

func newCommand(name string, config CommandConfig, in *inputs, env Environment) (*Command, error) {
	c := &Command{name: name, config: config, in: in}
	if !isToolName(name) {
		return nil, &ConfigError{Problem: fmt.Sprintf("%q is no name for a tool", name), Allowed: "1 to 128 letters, digits, _, - and ."}
	}
	if err := config.checkNUL(); err != nil {
		return nil, err
	}
	if err := c.fillDefaults(); err != nil {
		return nil, err
	}
	var err error
	if config.Shell != "" {
		err = c.buildShell()
	} else {
		err = c.buildArgv()
	}
	if err != nil {
		return nil, err
	}
	if config.Stdin != "" {
		t := parseTemplate(config.Stdin)
		if err := c.in.checkTemplate("stdin", &t); err != nil {
			return nil, err
		}
		c.stdin = &t
	}
	if config.Confirm != "" {
		t := parseTemplate(config.Confirm)
		if err := c.in.checkTemplate("confirm", &t); err != nil {
			return nil, err
		}
		c.asks = &t
	}
	if err := checkProgress(config.Progress); err != nil {
		return nil, err
	}
	c.marks = sync.OnceValue(func() *regexp.Regexp { return compileProgress(config.Progress) })
	if config.MaxConcurrent > 0 {
		c.slots = make(chan struct{}, config.MaxConcurrent)
	}
	return c, c.buildEnvironment(env)
}

// checkNUL refuses what the system would refuse at each call.
func (f *CommandConfig) checkNUL() error {
	texts := map[string]string{"shell": f.Shell, "dir": f.Dir}
	for i, element := range f.Command {
		texts[fmt.Sprintf("command[%d]", i)] = element
	}
	for name, value := range f.Env {
		texts["env."+name] = value
	}
	for key, text := range texts {
		if strings.IndexByte(text, 0) >= 0 {
			return &ConfigError{Key: key, Problem: "holds a NUL character, which no command can take"}
		}
	}
	return nil
}

func (c *Command) fillDefaults() error {
	f := &c.config
	for _, choice := range []struct {
		key     string
		value   *string
		allowed []string // the first is the default
	}{
		{"stderr", &f.Stderr, []string{"merge", "separate", "discard"}},
		{"ansi", &f.ANSI, []string{"strip", "keep"}},
		{"output", &f.Output, []string{"text", "lines"}},
		{"task", (*string)(&f.Task), []string{"optional", "required", "forbidden"}},
		{"confirmFallback", &f.ConfirmFallback, []string{"refuse", "run"}},
	} {
		if *choice.value == "" {
			*choice.value = choice.allowed[0]
		}
		if !slices.Contains(choice.allowed, *choice.value) {
			return &ConfigError{Key: choice.key, Problem: fmt.Sprintf("%q is unknown", *choice.value), Allowed: strings.Join(choice.allowed, ", ")}
		}
	}
	if f.Pty && f.Stderr != "merge" {
		return &ConfigError{Key: "stderr", Problem: f.Stderr + " cannot be had with pty: a terminal is one stream", Allowed: "merge"}
	}
	if f.Detach && f.Task == mcp.TaskForbidden {
		return &ConfigError{Key: "detach", Problem: "cannot be had with task: forbidden: what is detached is a task", Allowed: "false"}
	}
	if f.Grace == nil {
		grace := DefaultGrace
		f.Grace = &grace
	}
	for key, d := range map[string]Duration{"timeout": f.Timeout, "idleTimeout": f.IdleTimeout, "grace": *f.Grace} {
		if d < 0 {
			return &ConfigError{Key: key, Problem: d.String() + " is negative", Allowed: "0 or more"}
		}
	}
	if f.OkExitCodes == nil {
		f.OkExitCodes = []int{0}
	}
	for i, code := range f.OkExitCodes {
		if code < 0 || code > 255 {
			return &ConfigError{Key: fmt.Sprintf("okExitCodes[%d]", i), Problem: fmt.Sprintf("%d is no exit code", code), Allowed: "0 to 255"}
		}
	}
	if f.MaxConcurrent < 0 {
		return &ConfigError{Key: "maxConcurrent", Problem: fmt.Sprintf("%d is negative", f.MaxConcurrent), Allowed: "1 or more; 0 = no limit"}
	}
	if f.MaxOutput == nil {
		f.MaxOutput = new(DefaultMaxOutput)
	}
	if *f.MaxOutput == 0 {
		return &ConfigError{Key: "maxOutput", Problem: "0 is out of range", Allowed: "1 or more"}
	}
	if f.MaxResult == nil {
		f.MaxResult = new(DefaultMaxResult)
	}
	if *f.MaxResult < minMaxResult || *f.MaxResult > limitMaxResult {
		return &ConfigError{Key: "maxResult", Problem: f.MaxResult.String() + " is out of range", Allowed: minMaxResult.String() + " to " + limitMaxResult.String()}
	}
	return nil
}

func (c *Command) buildArgv() error {
	if len(c.config.Command) == 0 {
		return &ConfigError{Problem: "says nothing to run", Allowed: "command (a list of words) or shell (a script)"}
	}
	if c.config.Command[0] == "" {
		return &ConfigError{Key: "command[0]", Problem: "is empty", Allowed: "a program's name or path"}
	}
	for i, element := range c.config.Command {
		t := parseTemplate(element)
		if err := c.in.checkTemplate(fmt.Sprintf("command[%d]", i), &t); err != nil {
			return err
		}
		c.argv = append(c.argv, t)
	}
	return nil
}

var variableName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
})

// buildShell checks the script form. Its arguments are environment variables and nothing else, so that
// no value is ever read as a part of the script.
func (c *Command) buildShell() error {
	if len(c.config.Command) > 0 {
		return &ConfigError{Key: "shell", Problem: "stands beside command", Allowed: "one of the two"}
	}
	for _, name := range c.in.names {
		if !variableName().MatchString(name) {
			return &ConfigError{Key: "input." + name, Problem: "cannot be an environment variable, which it would be for shell", Allowed: "letters, digits and _, no digit first"}
		}
	}
	for _, m := range placeholder().FindAllStringSubmatch(c.config.Shell, -1) {
		if slices.Contains(c.in.names, m[1]) {
			return &ConfigError{Key: "shell", Problem: m[0] + " is not filled in a script", Allowed: `"$` + m[1] + `"`}
		}
	}
	for _, word := range []string{"/bin/sh", "-c", c.config.Shell} {
		c.argv = append(c.argv, template{text: []string{word}})
	}
	return nil
}

func (c *Command) buildEnvironment(env Environment) error {
	vars := env.Vars
	if vars == nil {
		vars = os.Environ()
	}
	dir := c.config.Dir
	switch home, _ := lookupEnv(vars, "HOME"); {
	case inHome(dir) && !filepath.IsAbs(home):
		return &ConfigError{Key: "dir", Problem: dir + ": HOME is not set", Allowed: "a path from / or from the config file's directory"}
	case inHome(dir):
		dir = filepath.Join(home, dir[1:])
	case !filepath.IsAbs(dir):
		dir = filepath.Join(env.Dir, dir)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("finding the directory of %q: %w", c.name, err)
	}
	c.dir = dir

	// A variable of runnel's own must not pass for an argument that the call did not give.
	drop := map[string]bool{"PWD": true}
	if c.config.Shell != "" {
		for _, name := range c.in.names {
			drop[name] = true
		}
	}
	for name := range c.config.Env {
		if name == "" || strings.ContainsAny(name, "= \t\n\x00") {
			return &ConfigError{Key: "env", Problem: fmt.Sprintf("%q is no name for a variable", name), Allowed: "a name without = and blanks"}
		}
		drop[name] = true
	}
	c.env = make([]string, 0, len(vars)+len(c.config.Env)+2)
	for _, v := range vars {
		if name, _, _ := strings.Cut(v, "="); !drop[name] {
			c.env = append(c.env, v)
		}
	}
	c.env = append(c.env, "PWD="+dir)
	for _, name := range slices.Sorted(maps.Keys(c.config.Env)) {
		c.env = append(c.env, name+"="+c.config.Env[name])
	}
	if _, ok := lookupEnv(c.env, "TERM"); c.config.Pty && !ok {
		c.env = append(c.env, "TERM=xterm-256color")
	}
	return nil
}

// Describe tells what tools/list shows.
func (c *Command) Describe() mcp.Tool {
	return mcp.Tool{
		Name:         c.name,
		Title:        c.config.Title,
		Description:  c.config.Description,
		InputSchema:  c.in.schema,
		OutputSchema: commandOutputSchema,
		Annotations:  c.config.Annotations,
		// streamPartial tells what the tool does "when invoked as a task" (SEP-2679, 3).
		Execution: &mcp.ToolExecution{TaskSupport: c.config.Task, StreamPartial: c.config.Task != mcp.TaskForbidden},
	}
}

// Call runs the command once. A command that could not be started, or that ended badly, gives a
// result with isError; Call itself returns an error only if ctx ended before the command began.
func (c *Command) Call(ctx context.Context, in *Call, out *Output) (*mcp.CallToolResult, error) {
	spec, err := c.prepare(in)
	if err != nil {
		return mcp.ErrorResult(err.Error()), nil
	}
	if refused, err := c.confirm(ctx, in); refused != nil || err != nil {
		return refused, err
	}
	if c.config.Detach {
		return nil, c.detach(ctx, in, out)
	}
	leave, err := c.enter(ctx, out)
	if err != nil {
		return nil, err
	}
	defer leave()

	variables, err := newVariablesFile(in)
	if err != nil {
		return mcp.ErrorResult(err.Error()), nil
	}
	defer variables.remove()
	spec.env = append(slices.Clone(spec.env), variablesVariable+"="+variables.path)

	began := time.Now()
	p, err := startProcess(spec)
	if err != nil {
		return mcp.ErrorResult(err.Error()), nil
	}
	out.log.Limit(int64(*c.config.MaxOutput))
	r := newRecord(&c.config, c.marks(), out)
	ending := p.run(ctx, r, limits{
		timeout: time.Duration(c.config.Timeout),
		idle:    time.Duration(c.config.IdleTimeout),
		grace:   time.Duration(*c.config.Grace),
	})
	o := r.outcome(ending, time.Since(began))
	if o.failed() {
		in.SetStatus(o.statusMessage())
		in.Repeats(mcp.Text(o.verdict + "\n"))
	} else {
		in.Repeats()
	}
	if err := variables.merge(ctx, in); err != nil {
		o.verdict = cmp.Or(o.verdict, err.Error())
		in.SetStatus(o.statusMessage())
		in.Repeats(mcp.Text(o.verdict + "\n"))
	}
	result := o.result()
	if o.Truncated {
		in.Truncated()
	}
	return result, nil
}

// confirm asks the user whether to run the command. It returns the result of a call that may not run.
func (c *Command) confirm(ctx context.Context, in *Call) (*mcp.CallToolResult, error) {
	if c.asks == nil {
		return nil, nil
	}
	args, err := c.in.parseArguments(in.Arguments)
	if err != nil {
		return nil, err
	}
	question := c.asks.fill(func(name string) string { return strings.Join(args[name].values, " ") })
	answer, err := in.Ask(ctx, Question{Message: question, Schema: json.RawMessage(`{"type":"object","properties":{}}`)})
	switch {
	case errors.Is(err, ErrCannotAsk) && c.config.ConfirmFallback == "run":
		return nil, nil
	case errors.Is(err, ErrCannotAsk):
		return nil, fmt.Errorf("not run: %s must be confirmed by the user, and %w", c.name, err)
	case err != nil:
		return nil, fmt.Errorf("asking the user: %w", err)
	case answer.Action == mcp.ElicitAccept:
		return nil, nil
	case answer.Action == mcp.ElicitDecline:
		return mcp.ErrorResult("not run: the user declined"), nil
	default:
		return mcp.ErrorResult("not run: the user dismissed the question"), nil
	}
}

// prepare fills the placeholders and finds the program.
func (c *Command) prepare(in *Call) (*processSpec, error) {
	args, err := c.in.parseArguments(in.Arguments)
	if err != nil {
		return nil, err
	}
	s := &processSpec{dir: c.dir, env: c.env, pty: c.config.Pty, stderr: c.config.Stderr}
	if s.argv, err = expand(c.argv, args); err != nil {
		return nil, err
	}
	if len(c.argv[0].names) > 0 {
		if first, err := expand(c.argv[:1], args); err != nil || len(first) == 0 || first[0] == "" {
			return nil, errors.New("the argument that names the command to run has no value")
		}
	}
	if c.config.Shell != "" {
		s.env = slices.Clone(c.env)
		for _, name := range c.in.names {
			if a, ok := args[name]; ok {
				s.env = append(s.env, name+"="+a.joined())
			}
		}
	}
	if c.stdin != nil {
		text := c.stdin.fill(func(name string) string { return args[name].joined() })
		s.stdin = &text
	}
	s.path, err = c.find(s.argv[0])
	return s, err
}

// Program finds the program that a call would start, "" where an argument names it.
func (c *Command) Program() (string, error) {
	if len(c.argv[0].names) > 0 {
		return "", nil
	}
	return c.find(c.argv[0].text[0])
}

// find looks a program up from where the command runs, which must be there.
func (c *Command) find(program string) (string, error) {
	if info, err := os.Stat(c.dir); err != nil || !info.IsDir() {
		if err == nil {
			err = syscall.ENOTDIR
		}
		return "", fmt.Errorf("cannot start %s: directory %s: %w", program, c.dir, rootCause(err))
	}
	path, _ := lookupEnv(c.env, "PATH")
	return findProgram(program, c.dir, path)
}

// enter waits for a slot of maxConcurrent, until leave is called: a model that calls a tool twice at once gets both answers,
// one after the other. The timeouts begin with the command, not with the wait.
func (c *Command) enter(ctx context.Context, out *Output) (leave func(), err error) {
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case c.queue != nil:
		return c.queue.enter(ctx)
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
	select {
	case c.slots <- struct{}{}:
		return leave, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for another call of %s to end: %w", c.name, context.Cause(ctx))
	}
}

// keepSlots lets the calls of a command that run count among those of the command that takes its place, as long as the limit is the same.
func keepSlots(before, after Tool) {
	from, ok := before.(*Command)
	to, too := after.(*Command)
	if ok && too && cap(from.slots) == cap(to.slots) {
		to.slots = from.slots
	}
}

func lookupEnv(vars []string, name string) (string, bool) {
	for i := len(vars) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(vars[i], name+"="); ok {
			return value, true
		}
	}
	return "", false
}
