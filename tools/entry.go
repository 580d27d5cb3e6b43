package tools

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tools/schema"
	"runnel/tools/secrets"
)

// entry is a tool with what is read from it only once.
type entry struct {
	tool   Tool
	spec   mcp.Tool
	traits Traits
	schema *schema.Checker // nil: the arguments are checked elsewhere
	joined bool            // see Join
	extra  bool            // a fallback tool: clients that can use tasks do not see it
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
