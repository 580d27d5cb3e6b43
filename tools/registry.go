package tools

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"runnel/internal/signal"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tools/schema"
	"runnel/tools/secrets"
)

// fallbackPrefix keeps the fallback tools apart from other tools with their names.
const fallbackPrefix = "runnel_"

// Registry holds the tools that clients can call, sorted by name: those that were added, and those that have
// joined. Fill one with Add and pass it to Serve.
type Registry struct {
	changes signal.Broadcast // sent when the list changes

	mu       sync.RWMutex
	own      []*entry // those that were added
	fallback []*entry // see addOwn
	// before is what the names of the fallback tools begin with if another tool has the name of one.
	before string
	joined []*entry      // see Join
	tools  []*entry      // the list: of tools with the same name, the first
	pages  sync.Map      // the first pages of the list, by listKey, encoded; emptied when the list changes
	grace  time.Duration // the longest of all tools that it ever held: calls of replaced tools go on
}

// Add adds a tool. Its name must be free and consist of 1 to 128 letters, digits, _, - and . (2025-11-25
// server/tools, "Tool Names"); its input schema must be that of an object.
func (r *Registry) Add(t Tool) error {
	e := newEntry(t)
	if err := CheckName(e.spec.Name); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.insert(e)
	if i, _ := r.find(e.spec.Name); err != nil && !r.tools[i].extra {
		return err
	}
	r.own = append(r.own, e)
	if err != nil || e.traits.TakesInput || e.traits.Serves { // a fallback tool makes room, or is needed now
		r.arrange()
	}
	return nil
}

// addOwn adds runnel's own tools.
func (r *Registry) addOwn(own ...*entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fallback = append(r.fallback, own...)
	r.arrange()
}

// fallbackName returns the name under which one of the fallback tools is listed.
func (r *Registry) fallbackName(name string) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.before + name
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

// arrange rebuilds the list. It returns the joined tools whose names are taken, and reports whether clients
// see a difference. All other tools win over the fallback tools: if one of these has a name that is taken,
// the names of all begin with fallbackPrefix, so that they are seen to belong together. r.mu is held.
func (r *Registry) arrange() (changed bool, leftOut []Tool) {
	before := r.tools
	r.tools = nil
	r.pages.Clear()
	isExtra := func(e *entry) bool { return e.extra }
	app := slices.DeleteFunc(slices.Clone(r.fallback), isExtra)
	for _, e := range slices.Concat(r.own, app, r.joined) {
		if r.insert(e) != nil && e.joined {
			leftOut = append(leftOut, e.tool)
		}
	}
	taken := func(e *entry) bool {
		_, taken := r.find(r.before + e.spec.Name)
		return taken && e.extra
	}
	for r.before = ""; slices.ContainsFunc(r.fallback, taken); {
		r.before += fallbackPrefix
	}
	typed := slices.ContainsFunc(r.tools, func(e *entry) bool { return e.traits.TakesInput })
	serves := slices.ContainsFunc(r.tools, func(e *entry) bool { return e.traits.Serves })
	for _, e := range r.fallback {
		if e.extra && (typed || !e.types) {
			renamed := *e
			renamed.spec.Name = r.before + e.spec.Name
			// Clients with tasks have no other way to these tasks, since their calls are answered with a
			// text.
			renamed.always = e.types || e.named && serves
			_ = r.insert(&renamed) // its name is free
		}
	}
	same := slices.EqualFunc(before, r.tools,
		func(a, b *entry) bool { return reflect.DeepEqual(a.spec, b.spec) })
	return !same, leftOut
}

// Join puts the tools of a Source into the list, in place of those that joined before. Such a tool checks its
// name and its arguments itself. Tools whose names are taken are left out and returned; changed reports
// whether clients see a difference.
func (r *Registry) Join(tools []Tool) (changed bool, leftOut []Tool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.joined = nil
	for _, t := range tools {
		e := newEntry(t)
		e.joined, e.schema = true, nil
		r.joined = append(r.joined, e)
	}
	return r.arrange()
}

// Changes announces changes of the list.
// Send on it when something else has changed what clients see of the list.
func (r *Registry) Changes() *signal.Broadcast { return &r.changes }

// Replace replaces the tools in the list, except the fallback tools, by those of another registry. Running
// calls continue. It reports whether clients see a difference, and if so notifies those that listen.
func (r *Registry) Replace(with *Registry) (changed bool) {
	r.mu.Lock()
	for _, e := range with.own {
		if k, ok := e.tool.(Kind); ok {
			if i, was := r.find(e.spec.Name); was {
				k.Replace(r.tools[i].tool)
			}
		}
	}
	r.own = with.own
	r.joined = with.joined
	r.grace = max(r.grace, with.grace)
	changed, _ = r.arrange()
	r.mu.Unlock()
	if changed {
		r.changes.Send()
	}
	return changed
}

// Grace returns how long calls of its tools may take to end, at most.
func (r *Registry) Grace() time.Duration {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.grace
}

// find returns where the tool with a name is in the list, or would be. r.mu is held.
func (r *Registry) find(name string) (int, bool) {
	return sort.Find(len(r.tools), func(i int) int { return strings.Compare(name, r.tools[i].spec.Name) })
}

// Lookup returns the tool with a name, nil if there is none.
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

// entry is a tool with what is read from it only once.
type entry struct {
	tool   Tool
	spec   mcp.Tool
	traits Traits
	schema *schema.Checker // nil: the arguments are checked elsewhere
	joined bool            // see Join
	extra  bool            // a fallback tool: clients that can use tasks do not see it, unless always
	always bool            // all clients see it, see arrange
	types  bool            // it is send_to_task, which is there if a tool takes input
	named  bool            // a sentence of a result names it: see howToResume and leftOut
	forApp bool            // only the app's page calls it
	shown  bool            // clients that show apps show the page beside its calls
}

// CheckName returns an error if the name of a tool is invalid (2025-11-25 server/tools, "Tool Names"). A
// regular expression for the same took a quarter of a millisecond to compile at each start.
func CheckName(name string) error {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	if name == "" || len(name) > 128 || strings.Trim(name, letters+"0123456789_.-") != "" {
		return fmt.Errorf("tool name %q: use 1 to 128 letters, digits, underscores, hyphens and dots", name)
	}
	return nil
}

func newEntry(t Tool) *entry {
	spec := t.Describe()
	e := &entry{tool: t, spec: spec, schema: schema.New(spec.InputSchema, "")}
	if k, ok := t.(Kind); ok {
		e.traits = k.Traits()
	}
	e.shown = !e.traits.bounded
	return e
}

// newOwnEntry makes the entry of one of runnel's own tools.
func newOwnEntry(t Tool) *entry {
	e := newEntry(t)
	e.traits.bounded, e.shown = true, false
	return e
}

// taskSupport returns whether the tool may be called as a task; an unset field forbids it (2025-11-25 tasks,
// "Tool-Level Negotiation").
func (e *entry) taskSupport() mcp.TaskSupport {
	if e.spec.Execution == nil || e.spec.Execution.TaskSupport == "" {
		return mcp.TaskForbidden
	}
	return e.spec.Execution.TaskSupport
}

// fit returns the arguments of a call as the tool takes them (see [schema.Checker.Fit]), or an error with
// secrets masked: a quotation could cut one in half.
func (e *entry) fit(arguments json.RawMessage, s *secrets.Set) (json.RawMessage, error) {
	if e.schema == nil {
		return arguments, nil
	}
	fitted, err := e.schema.Fit(arguments)
	if err == nil || !s.Holds(arguments) {
		return fitted, err
	}
	if _, err := e.schema.Fit(s.JSON(arguments)); err != nil {
		return nil, err
	}
	return nil, errors.New("the arguments do not fit the input schema, where they hold a secret")
}

// withMeta returns the tool as listed for a client that shows the page at a URI, and loads a tool with the
// member load in its _meta. A tool that has a page keeps it.
func (e *entry) withMeta(uri, load string) mcp.Tool {
	t := e.spec
	set := func(name string, value any) {
		if len(t.Meta) == 0 {
			t.Meta = json.RawMessage("{}")
		}
		t.Meta = rawjson.WithMember(t.Meta, name, value)
	}
	switch {
	case uri == "":
	case e.forApp:
		t.Meta = json.RawMessage(`{"ui":{"visibility":["app"]}}`)
	case e.shown && rawjson.Member(t.Meta, "ui") == nil:
		set("ui", map[string]string{"resourceUri": uri})
	}
	if e.named && load != "" {
		set(load, true)
	}
	return t
}
