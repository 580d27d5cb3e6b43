// Package statetest has one suite for what every state of tasks must do, which each of them runs, and helpers
// for tests of states.
package statetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
)

// Run holds the states that open makes, each empty, against the contract of tasks.State.
func Run(t *testing.T, open func(t *testing.T) tasks.State) {
	for name, test := range map[string]func(*testing.T, tasks.State){
		"pages":                     pages,
		"hides foreign and expired": hides,
		"deletes for the owner":     deletes,
		"variables":                 variables,
		"head":                      head,
		"large results":             largeResults,
		"arguments":                 arguments,
		"ends without a handle":     endsHidden,
		"hears who asks":            asks,
		"sessions":                  sessions,
		"files":                     keepsFiles,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

// A session is stored as long as its version is the one that was seen, and is its owner's only.
func sessions(t *testing.T, s tasks.State) {
	store, ok := s.Open(owner).(tasks.Sessions)
	if !ok {
		t.Skip("it does not outlive the process")
	}
	put := func(session string, version uint64) uint64 {
		t.Helper()
		stored, err := store.PutSession(t.Context(), "ID", []byte(session), version)
		if err != nil {
			t.Fatal(err)
		}
		return stored
	}
	find := func(of, id, want string, wantVersion uint64) {
		t.Helper()
		if session, version, err := s.Open(of).(tasks.Sessions).Session(t.Context(), id); err != nil ||
			string(session) != want || version != wantVersion {
			t.Errorf("session %s of %s: %q, %d, %v; want %q, %d", id, of, session, version, err, want,
				wantVersion)
		}
	}
	for range 2 {
		find(owner, "ID", "", 0)
		first := put("one", 0)
		if first == 0 || put("two", 0) != 0 || put("two", first+1) != 0 {
			t.Fatalf("version %d, and others count, too", first)
		}
		second := put("two", first)
		if second == 0 || put("three", first) != 0 {
			t.Fatalf("version %d, and the one before counts, too", second)
		}
		find(owner, "ID", "two", second)
		find("other", "ID", "", 0)
		find(owner, "id.that>nobody*issued", "", 0)
		for range 2 {
			if err := store.DeleteSession(t.Context(), "ID"); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// The largest result that passes to a client is stored whole: most states have a limit for one item or
// message.
func largeResults(t *testing.T, s tasks.State) {
	large := strings.Repeat("x", mcp.MaxPassed)
	Put(t, s, Ended(Working("one"), mcp.TaskCompleted, large))
	for range 2 {
		if text, _ := mcp.TextOf(Get(t, s, "one").Outcome.Result.Content[0]); text != large {
			t.Errorf("%d bytes of %d", len(text), len(large))
		}
	}
}

// Pages of any size show an owner's tasks once and in order.
func pages(t *testing.T, s tasks.State) {
	var want []string
	for i := range 25 {
		task := Working(fmt.Sprint("task", i))
		if i%5 == 4 {
			task.Owner = "other"
		} else {
			want = append(want, task.ID)
		}
		Put(t, s, task)
	}
	for n := 1; n <= 26; n++ {
		if got := IDs(t, s, n); !slices.Equal(got, want) {
			t.Fatalf("pages of %d: got %v, want %v", n, got, want)
		}
	}
	for before, from := "", len(want); ; from-- {
		page, rest, err := s.Open(owner).List(t.Context(), tasks.NewestFirst, before, 3)
		if last := page[max(len(page)-1, 0):]; from > 3 && (len(last) == 0 || rest != last[0].ID) ||
			from <= 3 && rest != "" {
			t.Errorf("the newest before %q: the rest begins at %q", before, rest)
		}
		got := []string{}
		for _, task := range slices.Backward(page) {
			got = append(got, task.ID)
		}
		if expected := want[max(from-3, 0):from]; err != nil || !slices.Equal(got, expected) {
			t.Fatalf("the newest before %q: %v, %v; want %v", before, got, err, expected)
		}
		if from == 0 {
			break
		}
		before = want[from-1]
	}
	for _, unknown := range []string{"unknown", "task4"} { // which is another owner's
		if _, _, err := s.Open(owner).List(t.Context(), tasks.NewestFirst, unknown, 3); !errors.Is(err, tasks.ErrCursor) {
			t.Errorf("before %s: %v, want ErrCursor", unknown, err)
		}
	}
	for i := range 20 {
		if err := s.Open(owner).Delete(t.Context(), fmt.Sprint("task", i)); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := IDs(t, s, 2), []string{"task20", "task21", "task22", "task23"}; !slices.Equal(got, want) {
		t.Fatalf("after deletions: got %v, want %v", got, want)
	}
	for _, cursor := range []string{"!", "-1", "zzzz"} {
		if _, _, err := s.Open("local").List(t.Context(), tasks.OldestFirst, cursor, 1); !errors.Is(err, tasks.ErrCursor) {
			t.Errorf("cursor %q: got %v, want ErrCursor", cursor, err)
		}
	}
}

// A task of another owner, an expired one and an unknown one are not found.
func hides(t *testing.T, s tasks.State) {
	old := Ended(Working("old"), mcp.TaskCompleted, "done")
	old.CreatedAt = time.Now().Add(-time.Hour)
	Put(t, s, Working("mine"), old)
	for _, c := range []struct{ owner, id string }{{"other", "mine"}, {"local", "old"},
		{"local", "unknown"}} {
		if _, err := s.Open(c.owner).Get(t.Context(), c.id); !errors.Is(err, tasks.ErrNotFound) {
			t.Errorf("%v: got %v, want ErrNotFound", c, err)
		}
	}
	if got := IDs(t, s, 10); !slices.Equal(got, []string{"mine"}) {
		t.Errorf("listed: %v", got)
	}
}

// A task is deleted for its owner, and for nobody else: one that another owner tries to delete runs on.
func deletes(t *testing.T, s tasks.State) {
	runs := Working("runs")
	Put(t, s, runs)
	if err := s.Open("other").Delete(t.Context(), "runs"); err != nil {
		t.Error(err)
	}
	if err := runs.Log.Append(t.Context(), partials.Chunk{Data: []byte("line\n")}); err != nil {
		t.Fatal(err)
	}
	Put(t, s, Ended(runs, mcp.TaskCompleted, "done"))
	if got := Get(t, s, "runs"); got.Status != mcp.TaskCompleted || ReadAll(t, got.Log) != "line\n" {
		t.Errorf("%s, %q", got.Status, ReadAll(t, got.Log))
	}
	Put(t, s, Ended(Working("a"), mcp.TaskCompleted, "done"))
	if err := s.Open("other").Delete(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	Get(t, s, "a")
	if err := s.Open(owner).Delete(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	if _, err := s.Open(owner).Get(t.Context(), "a"); !errors.Is(err, tasks.ErrNotFound) {
		t.Errorf("deleted: %v, want ErrNotFound", err)
	}
}

// Variables are merged while the task works, and no later Put undoes that.
func variables(t *testing.T, s tasks.State) {
	task := Working("a")
	Put(t, s, task)
	for _, c := range []struct{ patch, want string }{
		{`{"a":1,"b":2}`, `{"a":1,"b":2}`},
		{`{"a":null,"c":3}`, `{"b":2,"c":3}`},
	} {
		if got, err := s.Open(owner).SetVariables(t.Context(), "a", []byte(c.patch)); err != nil ||
			string(got) != c.want {
			t.Errorf("%s: %s, %v; want %s", c.patch, got, err, c.want)
		}
	}
	var refused *rpc.Error
	if _, err := s.Open(owner).SetVariables(t.Context(), "a", []byte("[]")); !errors.As(err, &refused) {
		t.Errorf("a list: %v", err)
	}
	if _, err := s.Open("other").SetVariables(t.Context(), "a", []byte("{}")); !errors.Is(err, tasks.ErrEnded) {
		t.Errorf("another owner: %v", err)
	}
	Put(t, s, Ended(task, mcp.TaskCompleted, "done"))
	if got := Get(t, s, "a").Variables; string(got) != `{"b":2,"c":3}` {
		t.Errorf("in the end: %s", got)
	}
	if _, err := s.Open(owner).SetVariables(t.Context(), "a", []byte(`{"a":1}`)); !errors.Is(err, tasks.ErrEnded) {
		t.Errorf("after the end: %v", err)
	}
}

// The head of a task is what Get says of it, with its log.
func head(t *testing.T, s tasks.State) {
	Put(t, s, Ended(Working("a", "line\n"), mcp.TaskFailed, "done"))
	whole := Get(t, s, "a")
	h, err := s.Open(owner).Head(t.Context(), "a")
	if err != nil || h.Status != whole.Status || h.StatusMessage != whole.StatusMessage ||
		!h.UpdatedAt.Equal(whole.UpdatedAt) || h.TTL != whole.TTL {
		t.Errorf("%+v, %v; want %+v", h, err, whole)
	}
	if got := ReadAll(t, h.Log); got != "line\n" {
		t.Errorf("its log: %q", got)
	}
	if _, err := s.Open("other").Head(t.Context(), "a"); !errors.Is(err, tasks.ErrNotFound) {
		t.Errorf("another owner: %v", err)
	}
}

// The arguments and the client of a task are found as long as the task is, also those of one that was hidden
// first.
func arguments(t *testing.T, s tasks.State) {
	const want = `{"a":[1,"two"]}`
	task := Working("a")
	other := Working("other")
	late := Working("late")
	stored := Hide(s, late) == nil
	task.Arguments, late.Arguments = json.RawMessage(want), json.RawMessage(want)
	task.Client = "host"
	Put(t, s, task, other)
	if stored {
		Put(t, s, late)
	}
	check := func(id, want string) {
		t.Helper()
		h, err := s.Open(owner).Head(t.Context(), id)
		if got := Get(t, s, id).Arguments; string(got) != want || string(h.Arguments) != want || err != nil {
			t.Errorf("%s: %s, its head %s, %v; want %s", id, got, h.Arguments, err, want)
		}
	}
	check("a", want)
	check("other", "")
	Put(t, s, Ended(task, mcp.TaskCompleted, "done"))
	check("a", want)
	page, _, err := s.Open(owner).List(t.Context(), tasks.OldestFirst, "", 3)
	if a := Get(t, s, "a"); a.Client != "host" || err != nil || page[0].Client+page[1].Client != "host" {
		t.Errorf("the client: %q, in the list %+v, %v", a.Client, page, err)
	}
	if stored {
		check("late", want)
	}
}

// A hidden task is visible from its first Put on, even if it has ended by then.
func endsHidden(t *testing.T, s tasks.State) {
	task := Working("a", "line\n")
	if err := Hide(s, task); errors.Is(err, errors.ErrUnsupported) {
		t.Skip("this state hides nothing")
	} else if err != nil {
		t.Fatal(err)
	}
	if got := IDs(t, s, 10); len(got) > 0 {
		t.Errorf("it is hidden, and listed: %v", got)
	}
	if err := s.Open(owner).Put(t.Context(), Ended(task, mcp.TaskCompleted, "done")); err != nil {
		t.Fatal(err)
	}
	if got := Get(t, s, "a"); got.Status != mcp.TaskCompleted || got.Outcome == nil ||
		ReadAll(t, got.Log) != "line\n" || len(IDs(t, s, 10)) != 1 {
		t.Errorf("%+v", got)
	}
}

// Asking is not an error, even if the task has ended or is unknown; Heed ends with its context.
func asks(t *testing.T, s tasks.State) {
	if _, ok := s.Open(owner).(tasks.Shared); !ok {
		t.Skip("no other process finds its tasks")
	}
	Put(t, s, Ended(Working("a"), mcp.TaskCompleted, "done"))
	for _, id := range []string{"a", "unknown"} {
		if err := Shared(s).Ask(t.Context(), id); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if asked, fenced, _ := Shared(s).Heed(ctx); len(asked)+len(fenced) > 0 {
		t.Errorf("asked %v, fenced %v", asked, fenced)
	}
}
