package tools

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tools/schema"
	"runnel/tools/secrets"
)

// Registry holds the tools that clients can call, sorted by name: those that were added to it, and those that have joined them.
type Registry struct {
	changes rpc.Broadcast // told when the list changes

	mu       sync.RWMutex
	own      []*entry      // those that were added
	fallback []*entry      // see addFallback and addForApp
	joined   []*entry      // see Join
	tools    []*entry      // the list: of those that have the same name, the first
	pages    sync.Map      // by listKey: the first pages of the list, encoded; emptied when it changes
	grace    time.Duration // longest of all tools that it has held: calls of those that Replace takes out go on
}

// entry is a tool with what was read of it once.
type entry struct {
	tool   Tool
	spec   mcp.Tool
	traits Traits
	schema *schema.Checker // nil: the arguments are checked elsewhere
	joined bool            // see Join
	extra  bool            // the lists of some clients leave it out: see addFallback
	forApp bool            // only the page of the app calls it: see addApp
	shown  bool            // clients that show apps show the page beside its calls
}

// CheckName says what is wrong with the name of a tool (2025-11-25 server/tools, "Tool Names"). The regular expression
// that says the same took a quarter of a millisecond to compile at each start.
func CheckName(name string) error {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	if name == "" || len(name) > 128 || strings.Trim(name, letters+"0123456789_.-") != "" {
		return fmt.Errorf("tool name %q: use 1 to 128 letters, digits, underscores, hyphens and dots", name)
	}
	return nil
}

// Add adds a tool. Its name must be free, and 1 to 128 letters, digits, _, - and . (2025-11-25 server/tools, "Tool Names"), its
// input schema an object's.
func (r *Registry) Add(t Tool) error {
	e, err := newEntry(t)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.insert(e); err != nil {
		return err
	}
	r.own = append(r.own, e)
	return nil
}

// addFallback adds a tool that the lists of some clients leave out. One whose name is taken joins the list when Replace frees it.
func (r *Registry) addFallback(t Tool) error {
	e, err := newEntry(t)
	if err != nil {
		return err
	}
	f, _ := t.(*fallbackTool)
	e.extra, e.traits.Bounded, e.shown = true, true, f != nil && f.shown
	return r.addOwn(e)
}

// addForApp adds a tool that only the page of the app calls, as addFallback does.
func (r *Registry) addForApp(t Tool) error {
	e, err := newEntry(t)
	if err != nil {
		return err
	}
	e.forApp, e.traits.Bounded, e.shown = true, true, false
	return r.addOwn(e)
}

// addOwn adds a tool that is runnel's own.
func (r *Registry) addOwn(e *entry) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fallback = append(r.fallback, e)
	return r.insert(e)
}

func newEntry(t Tool) (*entry, error) {
	spec := t.Describe()
	if err := CheckName(spec.Name); err != nil {
		return nil, err
	}
	e := &entry{tool: t, spec: spec, schema: schema.New(spec.InputSchema, "")}
	if k, ok := t.(Kind); ok {
		e.traits = k.Traits()
	}
	e.shown = !e.traits.Bounded
	return e, nil
}

// insert puts an entry in its place in the list. r.mu is held.
func (r *Registry) insert(e *entry) error {
	i, taken := r.find(e.spec.Name)
	if taken {
		return fmt.Errorf("two tools are named %q", e.spec.Name)
	}
	r.tools = slices.Insert(r.tools, i, e)
	r.pages.Clear()
	r.grace = max(r.grace, e.traits.Grace)
	return nil
}

// arrange makes the list anew. It returns the joined tools whose names are taken, and reports whether clients see a difference. r.mu is held.
func (r *Registry) arrange() (changed bool, leftOut []Tool) {
	before := r.tools
	r.tools = nil
	r.pages.Clear()
	for _, e := range slices.Concat(r.own, r.fallback, r.joined) {
		if r.insert(e) != nil && e.joined {
			leftOut = append(leftOut, e.tool)
		}
	}
	same := slices.EqualFunc(before, r.tools, func(a, b *entry) bool { return reflect.DeepEqual(a.spec, b.spec) })
	return !same, leftOut
}

// Join makes the tools of a Source stand in the list, instead of those that have joined it before. Whoever calls one of them checks its
// arguments itself. Those whose names are taken are left out and returned; changed reports whether clients see a difference.
func (r *Registry) Join(tools []Tool) (changed bool, leftOut []Tool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.joined = nil
	for _, t := range tools {
		e, err := newEntry(t)
		if err != nil {
			leftOut = append(leftOut, t)
			continue
		}
		e.joined, e.schema = true, nil
		r.joined = append(r.joined, e)
	}
	changed, taken := r.arrange()
	return changed, append(leftOut, taken...)
}

// Changes are those of the list.
func (r *Registry) Changes() *rpc.Broadcast { return &r.changes }

// Replace makes the list hold the tools of another registry, and the fallback tools, instead of those it held. Calls that run go on.
// Clients that listen are told, if what they can see is not the same, which it reports.
func (r *Registry) Replace(with *Registry) (changed bool) {
	r.mu.Lock()
	for _, e := range with.own {
		if k, ok := e.tool.(Kind); ok {
			if i, was := r.find(e.spec.Name); was {
				k.Replace(r.tools[i].tool)
			}
		}
	}
	r.own, r.joined, r.grace = with.own, with.joined, max(r.grace, with.grace)
	changed, _ = r.arrange()
	r.mu.Unlock()
	if changed {
		r.changes.Send()
	}
	return changed
}

// Grace is how long calls of its tools may take to end, of the one that may take longest.
func (r *Registry) Grace() time.Duration {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.grace
}

// find returns where the tool of a name stands, or where it would. r.mu is held.
func (r *Registry) find(name string) (int, bool) {
	return sort.Find(len(r.tools), func(i int) int { return strings.Compare(name, r.tools[i].spec.Name) })
}

// Lookup returns the tool of a name, nil if there is none.
func (r *Registry) Lookup(name string) Tool {
	if e := r.lookup(name); e != nil {
		return e.tool
	}
	return nil
}

// Tools returns all tools, sorted by name.
func (r *Registry) Tools() (list []Tool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, e := range r.tools {
		list = append(list, e.tool)
	}
	return list
}

func (r *Registry) lookup(name string) *entry {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if i, ok := r.find(name); ok {
		return r.tools[i]
	}
	return nil
}

// cursorPrefix distinguishes a cursor of ours from text that only looks like one.
const cursorPrefix = "after "

// listKey is what a page of the list depends on, beside where it begins.
type listKey struct {
	version *mcp.Version
	extra   bool          // the fallback tools are shown
	app     string        // the URI of the page of the app; "" where the client shows none
	hints   mcp.Cacheable // zero: none
	secrets *secrets.Set  // nil: none
}

// list returns a page of the tools, an mcp.ListToolsResult. A cursor is the name of the last tool shown, encoded. The first page is kept:
// hosts list the tools before each turn of a model.
func (r *Registry) list(k listKey, cursor string) (rpc.Encoded, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if page, ok := r.pages.Load(k); ok && cursor == "" {
		return page.(rpc.Encoded), nil
	}
	decoded, _ := base64.RawURLEncoding.DecodeString(cursor)
	last, ours := strings.CutPrefix(string(decoded), cursorPrefix)
	if cursor != "" && !ours {
		return nil, rpc.ErrCursor
	}
	i, found := r.find(last)
	if found {
		i++
	}
	page := struct {
		Tools      []json.RawMessage `json:"tools"`
		NextCursor string            `json:"nextCursor,omitempty"`
		*mcp.Cacheable
	}{Tools: []json.RawMessage{}}
	if k.hints != (mcp.Cacheable{}) {
		page.Cacheable = &k.hints
	}
	for size := 0; i < len(r.tools); i++ {
		e := r.tools[i]
		if e.extra && !k.extra || e.forApp && k.app == "" {
			continue
		}
		encoded := []byte(k.secrets.JSON(encode(dressTool(k.version, e.withPage(k.app)))))
		if size += len(encoded); size > mcp.MaxListPage && len(page.Tools) > 0 {
			page.NextCursor = base64.RawURLEncoding.EncodeToString([]byte(cursorPrefix + last))
			break
		}
		page.Tools, last = append(page.Tools, encoded), e.spec.Name
	}
	encoded := rpc.Encoded(encode(page))
	if cursor == "" {
		r.pages.Store(k, encoded)
	}
	return encoded, nil
}

// encode writes what certainly can be written as JSON, without escapes for HTML.
func encode(v any) []byte {
	var b bytes.Buffer
	to := json.NewEncoder(&b)
	to.SetEscapeHTML(false)
	if err := to.Encode(v); err != nil {
		panic("internal error: encoding a list of tools: " + err.Error())
	}
	return bytes.TrimSpace(b.Bytes())
}

// taskSupport says whether the tool may be called as a task; silence forbids it (2025-11-25 tasks, "Tool-Level Negotiation").
func (e *entry) taskSupport() mcp.TaskSupport {
	if e.spec.Execution == nil || e.spec.Execution.TaskSupport == "" {
		return mcp.TaskForbidden
	}
	return e.spec.Execution.TaskSupport
}

// check says what is wrong with the arguments of a call, without secrets: what it quotes may be half of one.
func (e *entry) check(arguments json.RawMessage, s *secrets.Set) error {
	if e.schema == nil {
		return nil
	}
	err := e.schema.Check(arguments)
	if err == nil || !s.Holds(arguments) {
		return err
	}
	if err := e.schema.Check(s.JSON(arguments)); err != nil {
		return err
	}
	return errors.New("the arguments do not fit the input schema, where they hold a secret")
}

// run calls the tool. What a model can mend (bad arguments, a tool's plain error) is a result with isError: "Input validation errors" are tool execution errors, which "contain
// actionable feedback that language models can use to self-correct" (2025-11-25 server/tools, "Error Handling").
func (e *entry) run(ctx context.Context, in *Call, log *partials.Log, progress func(done, total float64, message string)) *tasks.Done {
	out := NewOutput(ctx, log, progress)
	out.Hide(in.run.Secrets())
	result, err := e.tool.Call(ctx, in, out)
	out.end()
	return in.outcome(ctx, out, result, err)
}

// outcome is what a call of a tool has come to.
func (c *Call) outcome(ctx context.Context, out *Output, result *mcp.CallToolResult, err error) *tasks.Done {
	wire, isWire := errors.AsType[*rpc.Error](err)
	switch {
	case isWire:
		return &tasks.Done{Err: wire}
	case errors.Is(err, ErrCannotAsk) && c.caller != nil && c.caller.Version.Stateless && !c.CanAsk():
		return &tasks.Done{Err: need(c.caller, "elicitation/create", nil)}
	case err != nil:
		result = mcp.ErrorResult(err.Error())
	case result == nil:
		result = &mcp.CallToolResult{}
	}
	if result.Content == nil {
		result.Content = []mcp.ContentBlock{}
	}
	if result.IsError && c.Said.Status == "" {
		c.Said.Status = firstText(result)
	}
	result = fit(c.hide(out, result))
	if c.Said.Rest == nil {
		if rest, some := out.beyond(result.Content); some {
			c.Said.Rest = &rest
		}
	}
	if c.Said.Truncated && c.keep(ctx) && (c.caller == nil || c.caller.Version.ResourceLinks) {
		t := c.run.Task()
		result.Content = append(result.Content, tasks.LinkLog(&t))
	}
	return &tasks.Done{Result: result, Status: c.Said.Status, Rest: c.Said.Rest}
}

func firstText(result *mcp.CallToolResult) string {
	for _, c := range result.Content {
		if text, ok := mcp.TextOf(c); ok {
			return text
		}
	}
	return ""
}
