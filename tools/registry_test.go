package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
		f := Func(name, "", func(context.Context, struct{}, *Output) (*mcp.CallToolResult,
			error) {
			return nil, nil
		})
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

// The tools of other servers stand on one page, also with names that runnel's own tools must not have: some
// clients ignore nextCursor.
func TestJoinedToolsStandOnOnePage(t *testing.T) {
	r := &Registry{}
	var joined []Tool
	for i := range 300 {
		f := Func(fmt.Sprintf("files/read:%d ünd", i), strings.Repeat("x", 4<<10),
			func(context.Context, struct{}, *Output) (*mcp.CallToolResult, error) { return nil, nil })
		joined = append(joined, f)
	}
	if _, leftOut := r.Join(joined); len(leftOut) > 0 {
		t.Errorf("%d tools are left out", len(leftOut))
	}
	for range 2 {
		encoded, err := r.list(listKey{version: mcp.NewestHandshake()}, "")
		var page mcp.ListToolsResult
		if err == nil {
			err = json.Unmarshal(encoded, &page)
		}
		if err != nil || len(page.Tools) != 300 || page.NextCursor != "" {
			t.Fatalf("the page has %d tools, next %q, error %v", len(page.Tools), page.NextCursor, err)
		}
	}
}

// A tool's description goes out as it is written: a model reads it.
func TestListHasNoEscapesForHTML(t *testing.T) {
	r := &Registry{}
	if err := r.Add(Func("tool", "a < b && b > c", func(context.Context, struct{},
		*Output) (*mcp.CallToolResult, error) {
		return nil, nil
	})); err != nil {
		t.Fatal(err)
	}
	if list, err := r.list(listKey{version: mcp.NewestHandshake()}, ""); err != nil ||
		!strings.Contains(string(list), "a < b && b > c") {
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
	if err := errors.Join(r.Add(Func("a", "", own)), next.Add(Func("c", "", own))); err != nil {
		t.Fatal(err)
	}
	r.addOwn(extra(Func("list_tasks", "", own)))
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

// A fallback tool makes room for any other tool of its name: the fallback tools then have other names, all of
// them.
func TestFallbackToolsMakeRoom(t *testing.T) {
	own := func(context.Context, struct{}, *Output) (*mcp.CallToolResult, error) { return nil, nil }
	r, with := &Registry{}, &Registry{}
	theirs, joined := Func("list_tasks", "", own), Func("get_task", "", own)
	if err := with.Add(theirs); err != nil {
		t.Fatal(err)
	}
	fallback := Func("list_tasks", "", own)
	r.addOwn(extra(fallback))
	r.addOwn(extra(Func("cancel_task", "", own)))
	is := func(name string, want Tool) {
		t.Helper()
		if got := r.Lookup(name); got != want {
			t.Errorf("%s is %v", name, got)
		}
	}
	for range 2 {
		r.Replace(&Registry{})
		is("list_tasks", fallback)
		r.Replace(with)
		is("list_tasks", theirs)
		is("runnel_list_tasks", fallback)
		is("cancel_task", nil)
		if got := r.fallbackName("cancel_task"); got != "runnel_cancel_task" || r.Lookup(got) == nil {
			t.Errorf("cancel_task is called %s, which is %v", got, r.Lookup(got))
		}
	}
	r.Replace(&Registry{})
	// The joined tools are those of another runnel.
	r.Join([]Tool{Func("list_tasks", "", own), Func("runnel_list_tasks", "", own), joined})
	is("runnel_runnel_list_tasks", fallback)
	is("get_task", joined)
	r.Join(nil)
	is("list_tasks", fallback)
	if err := r.Add(theirs); err != nil {
		t.Fatal(err)
	}
	is("list_tasks", theirs)
	if err := r.Add(theirs); err == nil {
		t.Error("two tools have a name")
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
	tool := Func("tool", "", func(context.Context, struct{}, *Output) (*mcp.CallToolResult,
		error) {
		return nil, nil
	})
	if err := errors.Join(r.Add(graceful{tool, time.Minute}),
		next.Add(graceful{tool, time.Hour})); err != nil {
		t.Fatal(err)
	}
	for _, with := range []*Registry{next, {}} {
		r.Replace(with)
		if got := r.Grace(); got != time.Hour {
			t.Errorf("the grace is %v", got)
		}
	}
}

// extra makes the entry of a fallback tool.
func extra(t Tool) *entry {
	e := newOwnEntry(t)
	e.extra = true
	return e
}
