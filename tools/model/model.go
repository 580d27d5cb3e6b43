package model

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
	"runnel/tasks/run"
	"runnel/tools"
	"runnel/tools/config"
	"runnel/tools/inputs"
	"runnel/tools/schema"
)

// Model is a tool behind which a language model answers. Calls run in this process: what is streamed cannot
// be taken over by another one.
type Model struct {
	name   string
	config config.Command // defaults filled in
	conf   *config.Model  // of config
	in     *inputs.Inputs
	asks   *inputs.Template // the question before a call; nil = none
	system *inputs.Template // nil = none
	prompt *inputs.Template
	// pictures are the inputs that are; a path is below dir.
	pictures []string
	dir      string
	vars     []string // of the environment; nil = runnel's own
	api      api      // nil = sampling
	http     func() *http.Client

	outputSchema []byte
	outputs      *schema.Checker // checks the answer; nil = any object is valid, or any text

	slots chan struct{} // holds one element per running call; nil = no limit
}

var _ tools.Kind = (*Model)(nil)

// All makes the tools of a config that have a model, sorted by name. vars is runnel's environment
// ("NAME=value"; nil = that of the process). The error joins those of all tools, each with its place.
func All(c *config.Config, vars []string) ([]*Model, error) {
	base := config.Base{Dir: c.Dir(), Vars: vars, MaxResult: c.MaxResult()}
	var list []*Model
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(c.Tools)) {
		if c.Tools[name].Model == nil {
			continue
		}
		m, err := New(name, c.Tools[name], base)
		if err == nil && m.slots != nil && reaches(c, name, name, map[string]bool{}) {
			err = &config.Error{Key: "maxConcurrent", Problem: "would make the model wait for itself, " +
				"since its tools call it",
				Allowed: "no limit here, or other tools in model.tools"}
		}
		if err != nil {
			errs = append(errs, c.Locate(config.Join("tools", name), err))
			continue
		}
		list = append(list, m)
	}
	return list, config.JoinErrors(errs)
}

// reaches reports whether a call of a tool may make one of another, through models and steps.
func reaches(c *config.Config, from, to string, seen map[string]bool) bool {
	tool := c.Tools[from]
	var next []string
	if tool.Model != nil {
		next = slices.Clone(tool.Model.Tools)
	}
	for i := range tool.Steps {
		next = append(next, tool.Steps[i].Tool)
	}
	for _, name := range next {
		if name == to {
			return true
		}
		if !seen[name] {
			seen[name] = true
			if reaches(c, name, to, seen) {
				return true
			}
		}
	}
	return false
}

// New checks a tool's configuration, except its schemas (see CheckSchemas), and makes the tool. A mistake is
// a *config.Error.
func New(name string, conf config.Command, base config.Base) (*Model, error) {
	m := &Model{name: name, config: conf, vars: base.Vars, http: sync.OnceValue(newHTTP)}
	if tools.CheckName(name) != nil {
		return nil, &config.Error{Problem: fmt.Sprintf("%q is not a name for a tool", name),
			Allowed: "1 to 128 letters, digits, _, - and ."}
	}
	if err := m.config.CompleteModel(); err != nil {
		return nil, err
	}
	m.conf = m.config.Model
	var err error
	if m.dir, _, err = base.Inherit(m.config.Dir, nil); err != nil {
		return nil, err
	}
	if conf.MaxResult == nil && base.MaxResult > 0 {
		m.config.MaxResult = &base.MaxResult
	}
	for _, build := range []func() error{m.buildTexts, m.buildAPI, m.buildOutput} {
		if err := build(); err != nil {
			return nil, err
		}
	}
	if conf.MaxConcurrent > 0 {
		m.slots = make(chan struct{}, conf.MaxConcurrent)
	}
	return m, nil
}

// buildTexts reads the inputs and the texts that they fill.
func (m *Model) buildTexts() (err error) {
	if m.in, err = inputs.Parse(m.config.Input, m.config.Required); err != nil {
		return err
	}
	if m.prompt, err = m.in.Template("model.prompt", m.conf.Prompt); err != nil {
		return err
	}
	if m.conf.System != "" {
		if m.system, err = m.in.Template("model.system", m.conf.System); err != nil {
			return err
		}
	}
	m.pictures = findPictures(m.in)
	for _, name := range m.in.Names {
		if !m.in.Used[name] && !slices.Contains(m.pictures, name) {
			return &config.Error{Key: m.in.Key([]string{"properties", name}),
				Problem: "the model does not get it", Allowed: "{{" + name + "}} in model.prompt or model.system"}
		}
	}
	if m.config.Confirm != "" {
		m.asks, err = m.in.Template("confirm", m.config.Confirm)
	}
	return err
}

// buildOutput checks the schema of the answer.
func (m *Model) buildOutput() error {
	source := m.config.OutputSchema
	if len(source) == 0 {
		return nil
	}
	if m.config.Structured != config.StructuredJSON {
		return &config.Error{Key: "outputSchema", Problem: "describes an answer that is not in the result as JSON",
			Allowed: "structured: json beside it"}
	}
	switch kind := string(rawjson.Member(source, "type")); kind {
	case `"object"`:
	case "":
		source = rawjson.WithMember(source, "type", "object")
	default:
		return &config.Error{Key: "outputSchema.type", Problem: kind + ": what a tool returns is an object",
			Allowed: "object"}
	}
	m.outputSchema, m.outputs = source, schema.New(source, "member")
	return nil
}

// CheckSchemas returns the mistakes in the JSON Schemas of models, each with its place in the config.
func CheckSchemas(c *config.Config, models []*Model) error {
	var errs []error
	for _, m := range models {
		if err := m.in.CheckSchemas(m.outputs); err != nil {
			errs = append(errs, c.Locate(config.Join("tools", m.name), err))
		}
	}
	return config.JoinErrors(errs)
}

// Describe returns the entry of tools/list.
func (m *Model) Describe() mcp.Tool {
	return mcp.Tool{
		Name:         m.name,
		Title:        m.config.Title,
		Description:  cmp.Or(m.config.Description, "Asks the language model "+cmp.Or(m.conf.Name, "of the client")),
		InputSchema:  m.in.Schema,
		OutputSchema: m.outputSchema,
		Annotations:  m.config.Annotations,
		Meta:         m.config.Meta,
		Execution: &mcp.ToolExecution{TaskSupport: m.config.Task,
			StreamPartial: m.config.Task != mcp.TaskForbidden},
	}
}

// modelGrace is how long a call may take to end after it is stopped: it closes a connection.
const modelGrace = time.Second

// Traits implements tools.Kind.
func (m *Model) Traits() tools.Traits {
	return tools.Traits{Grace: modelGrace, AtOnce: m.config.MaxConcurrent, MaxResult: m.maxResult(),
		Longest:  time.Duration(m.config.Timeout),
		Detached: m.config.Runs != "", Confirms: m.asks != nil, Repeatable: m.config.Retry.Times > 0}
}

// maxResult returns the limit that the config gives the result's text, in bytes; 0 if it gives none.
func (m *Model) maxResult() int {
	if m.config.MaxResult == nil {
		return 0
	}
	return int(*m.config.MaxResult)
}

// Replace implements tools.Kind. Running calls of the previous model keep their slots if the limit is the
// same, and connections are used again.
func (m *Model) Replace(before tools.Tool) {
	if b, ok := before.(*Model); ok {
		m.http = b.http
		if cap(b.slots) == cap(m.slots) {
			m.slots = b.slots
		}
	}
}

// call is one call of a model.
type call struct {
	*Model
	in     *tools.Call
	out    *tools.Output
	talk   conversation
	latest *answer // nil before the first request
	used   usage
	made   [][]byte // pictures of all answers
	sent   int      // bytes of the latest request
	capped string   // the budget that allows the latest answer fewer tokens than maxTokens; "" = none
	open   bool     // the last line of the output has no newline
	broken error    // the output takes no more
}

// errTimeout ends a call that takes too long.
var errTimeout = errors.New("timed out")

// Call asks the model. An answer that fails, is refused or has reached its most tokens is a result with
// isError or a last line that says so; the error is that of ctx alone.
func (m *Model) Call(ctx context.Context, in *tools.Call, out *tools.Output) (*mcp.CallToolResult, error) {
	args, err := m.in.Arguments(in.Arguments)
	if err != nil {
		return mcp.ErrorResult(err.Error()), nil
	}
	if m.asks != nil {
		question := m.asks.Fill(func(name string) string { return args[name].Quoted() })
		refused, err := in.Confirm(ctx, m.name, question, m.config.ConfirmFallback == "run")
		if refused != nil || err != nil {
			return refused, err
		}
	}
	if m.config.Runs != "" {
		o := tasks.Offer{Class: m.config.Runs, Priority: tasks.Priority(m.config.Priority), Confirmed: m.asks != nil,
			Timeout: time.Duration(*m.config.QueueTimeout), Retries: m.config.Retry.Times}
		if err := in.Offer(ctx, o, nil); err != nil {
			return nil, fmt.Errorf("%s cannot be run by a worker: %w", m.name, err)
		}
		return nil, nil
	}
	pictures, err := m.readPictures(args)
	if err != nil {
		return mcp.ErrorResult(err.Error()), nil
	}
	leave, err := m.enter(ctx, out)
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := in.Begin(ctx); err != nil {
		return nil, err
	}
	value := func(name string) string {
		if slices.Contains(m.pictures, name) {
			return "(the picture " + name + ")"
		}
		return args[name].Joined()
	}
	c := &call{Model: m, in: in, out: out, used: usage{Model: m.conf.Name}}
	c.talk = conversation{model: m.conf.Name, prompt: m.prompt.Fill(value), pictures: pictures,
		maxTokens: m.conf.MaxTokens, json: m.config.Structured == config.StructuredJSON, schema: m.outputSchema}
	if m.system != nil {
		c.talk.system = m.system.Fill(value)
	}
	out.Log().SetLimit(int64(*m.config.MaxOutput))
	asking := ctx
	if limit := time.Duration(m.config.Timeout); limit > 0 {
		var stop context.CancelFunc
		asking, stop = context.WithTimeoutCause(ctx, limit, errTimeout)
		defer stop()
	}
	if m.api == nil {
		err = c.sample(asking)
	} else {
		err = c.converse(asking)
	}
	in.Used(run.Usage{Model: m.conf.Name, Requests: c.used.Requests, InputTokens: c.used.InputTokens,
		CachedTokens: c.used.CachedTokens, OutputTokens: c.used.OutputTokens, USD: c.used.USD})
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return c.result(ctx, err), nil
}

// enter takes a slot of maxConcurrent, which leave frees. It waits instead of failing, so that a model that
// calls a tool twice gets both answers.
func (m *Model) enter(ctx context.Context, out *tools.Output) (leave func(), err error) {
	if m.slots == nil {
		return func() {}, nil
	}
	leave = func() { <-m.slots }
	select {
	case m.slots <- struct{}{}:
		return leave, nil
	default:
	}
	out.Progress(0, 0, fmt.Sprintf("waiting: %s runs at most %d at once", m.name, m.config.MaxConcurrent))
	select {
	case m.slots <- struct{}{}:
		return leave, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for another call of %s to end: %w", m.name, context.Cause(ctx))
	}
}

// write appends text of the answer to the log.
func (c *call) write(text string) error {
	c.open = !strings.HasSuffix(text, "\n")
	c.broken = c.out.WriteString(text)
	return c.broken
}

// note appends a line that is not the model's to the log.
func (c *call) note(line string) error {
	if c.open {
		line = "\n" + line
	}
	return c.write(line + "\n")
}
