package tools

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"runnel/rpc/mcp"
)

// A list counts all that a tool says of itself: each page stays below what clients read in a line.
func TestListHasPages(t *testing.T) {
	large := json.RawMessage(`{"x":"` + strings.Repeat("x", mcp.MaxListPage*2/3) + `"}`)
	r := &Registry{}
	for name, change := range map[string]func(*mcp.Tool){
		"title":       func(tool *mcp.Tool) { tool.Title = string(large) },
		"annotations": func(tool *mcp.Tool) { tool.Annotations = &mcp.ToolAnnotations{Title: string(large)} },
		"icons":       func(tool *mcp.Tool) { tool.Icons = large },
		"meta":        func(tool *mcp.Tool) { tool.Meta = large },
	} {
		f := Func(name, "", func(context.Context, struct{}, *Output) (*mcp.CallToolResult, error) { return nil, nil })
		change(&f.Tool)
		if err := r.Add(f); err != nil {
			t.Fatal(err)
		}
	}
	cursor := ""
	for i := range 4 {
		encoded, err := r.list(listKey{version: mcp.NewestHandshake()}, cursor)
		var page mcp.ListToolsResult
		if err == nil {
			err = json.Unmarshal(encoded, &page)
		}
		if cursor = page.NextCursor; err != nil || len(page.Tools) != 1 || (cursor == "") != (i == 3) {
			t.Fatalf("page %d has %d tools, next %q, error %v", i, len(page.Tools), cursor, err)
		}
	}
}

// A tool's description goes out as it is written: a model reads it.
func TestListHasNoEscapesForHTML(t *testing.T) {
	r := &Registry{}
	if err := r.Add(Func("tool", "a < b && b > c", func(context.Context, struct{}, *Output) (*mcp.CallToolResult, error) { return nil, nil })); err != nil {
		t.Fatal(err)
	}
	if list, err := r.list(listKey{version: mcp.NewestHandshake()}, ""); err != nil || !strings.Contains(string(list), "a < b && b > c") {
		t.Errorf("%s, %v", list, err)
	}
}

// The list is kept, and made anew when it has changed.
func TestListIsKept(t *testing.T) {
	own := func(context.Context, struct{}, *Output) (*mcp.CallToolResult, error) { return nil, nil }
	r, next := &Registry{}, &Registry{}
	sees := func(step, want string) {
		t.Helper()
		for range 2 {
			for extra, want := range map[bool]string{false: want, true: want + " list_tasks"} {
				encoded, err := r.list(listKey{version: mcp.NewestHandshake(), extra: extra}, "")
				var page mcp.ListToolsResult
				if err == nil {
					err = json.Unmarshal(encoded, &page)
				}
				got := ""
				for _, tool := range page.Tools {
					got += " " + tool.Name
				}
				if got != want || err != nil {
					t.Errorf("%s: the list is%s, want%s, error %v", step, got, want, err)
				}
			}
		}
	}
	if err := errors.Join(r.addOwn(Func("list_tasks", "", own), asExtra), r.Add(Func("a", "", own)), next.Add(Func("c", "", own))); err != nil {
		t.Fatal(err)
	}
	sees("at first", " a")
	if err := r.Add(Func("b", "", own)); err != nil {
		t.Fatal(err)
	}
	sees("added", " a b")
	r.Join([]Tool{Func("j", "", own)})
	sees("joined", " a b j")
	r.Join(nil)
	sees("left", " a b")
	r.Replace(next)
	sees("replaced", " c")
}

// A tool of the user's stands in the place of a fallback tool as long as the config has it.
func TestFallbackToolComesBack(t *testing.T) {
	own := func(context.Context, struct{}, *Output) (*mcp.CallToolResult, error) { return nil, nil }
	r, without, with := &Registry{}, &Registry{}, &Registry{}
	if err := errors.Join(r.Add(Func("list_tasks", "", own)), with.Add(Func("list_tasks", "", own))); err != nil {
		t.Fatal(err)
	}
	fallback := Func("list_tasks", "", own)
	if err := r.addOwn(fallback, asExtra); err == nil {
		t.Error("two tools have a name")
	}
	for i, next := range []*Registry{without, with, without} {
		r.Replace(next)
		if is := r.lookup("list_tasks").tool == Tool(fallback); is != (next == without) {
			t.Errorf("Replace %d: the fallback tool is there: %t", i, is)
		}
	}
}

// graceful is a kind of tool that may take long to end.
type graceful struct {
	*Function
	grace time.Duration
}

func (g graceful) Traits() Traits { return Traits{Grace: g.grace} }
func (g graceful) Replace(Tool)   {}

// A tool that the config has no more may have calls: they keep their grace.
func TestGraceOfAToolThatWasTakenOut(t *testing.T) {
	r, next := &Registry{}, &Registry{}
	tool := Func("tool", "", func(context.Context, struct{}, *Output) (*mcp.CallToolResult, error) { return nil, nil })
	if err := errors.Join(r.Add(graceful{tool, time.Minute}), next.Add(graceful{tool, time.Hour})); err != nil {
		t.Fatal(err)
	}
	for _, with := range []*Registry{next, {}} {
		r.Replace(with)
		if got := r.Grace(); got != time.Hour {
			t.Errorf("the grace is %v", got)
		}
	}
}

// asExtra makes an entry that of a fallback tool.
func asExtra(e *entry) { e.extra = true }
