package view_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/methods"
	"runnel/tasks/run"
	"runnel/tasks/sqlite"
	"runnel/tools"
	"runnel/tools/view"
)

// world is a server with a tool that talks when it is told to.
type world struct {
	t      *testing.T
	srv    *rpc.Server
	runner *run.Runner
	state  tasks.State
	say    chan string // what the tool writes; closed: it ends
}

// sayParams are the arguments of the tool.
type sayParams struct {
	N int `json:"n,omitempty"`
}

func serve(t *testing.T, o run.Options) *world {
	t.Helper()
	w := &world{t: t, srv: rpc.NewServer(nil), runner: run.NewRunner(o), state: o.State,
		say: make(chan string)}
	registry := &tools.Registry{}
	add := func(tool tools.Tool) {
		if err := registry.Add(tool); err != nil {
			t.Fatal(err)
		}
	}
	add(tools.Func("say", "", func(ctx context.Context, _ sayParams,
		out *tools.Output) (*mcp.CallToolResult, error) {
		for {
			select {
			case line, ok := <-w.say:
				if !ok {
					return mcp.Result("said"), nil
				}
				out.Progress(1, 2, line)
				if err := out.WriteString(line); err != nil {
					return nil, err
				}
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
	}))
	add(tools.FuncWith(mcp.Tool{Name: "ask", InputSchema: tools.ObjectSchema("", ""),
		Execution: &mcp.ToolExecution{TaskSupport: mcp.TaskOptional}},
		func(ctx context.Context, in *tools.Call, _ struct{}, _ *tools.Output) (*mcp.CallToolResult, error) {
			answer, done, err := in.AskLasting(ctx, "ok", tools.Question{Message: "Publish?"})
			if err != nil {
				return nil, err
			}
			defer done()
			return mcp.Result(string(answer.Action)), nil
		}))
	own := tools.Func("paged", "",
		func(context.Context, struct{}, *tools.Output) (*mcp.CallToolResult, error) { return nil, nil })
	own.Tool.Meta = json.RawMessage(`{"ui":{"resourceUri":"ui://own/page"}}`)
	add(own)
	methods.Register(w.srv, w.runner)
	tools.Serve(w.srv, registry, w.runner, tools.ServeOptions{App: view.App(w.runner, nil)})
	t.Cleanup(w.runner.Close)
	return w
}

var shows = mcp.ClientCapabilities{Extensions: map[string]any{mcp.ExtensionUI: map[string]any{"mimeTypes": []any{mcp.AppType}}}}

// client is a client of the server, with a session of its own.
type client struct {
	*rpc.Client
	t *testing.T
}

func (w *world) dial(version string, caps mcp.ClientCapabilities) client {
	w.t.Helper()
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	ended := make(chan struct{})
	session := w.srv
	go func() {
		defer close(ended)
		_ = session.Serve(context.Background(), in, out)
		_ = out.Close()
	}()
	c, err := rpc.Dial(w.t.Context(),
		rpc.DialOptions{In: toServer, Out: fromServer, Version: version, Capabilities: caps})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Close(); <-ended })
	return client{c, w.t}
}

// result calls a tool.
func (c client) result(name string, arguments any) (r mcp.CallToolResult, err error) {
	err = c.Call(c.t.Context(), "tools/call", map[string]any{"name": name, "arguments": arguments}, &r)
	return r, err
}

type args map[string]any

type shown struct {
	TaskID, Tool, Status, StatusMessage, LastLine string
	Arguments                                     json.RawMessage
	EndedAt                                       *time.Time
	Progress                                      *struct {
		Progress, Total float64
		Message         string
	}
	Bytes                        int64
	Mine, CanCancel, CanRunAgain bool
}

type output struct {
	Task               shown
	Text               string
	Start, Next, Bytes int64
}

// get calls a tool of the page, which must not fail.
func get[T any](c client, name string, arguments args) (answer T) {
	c.t.Helper()
	r, err := c.result(name, arguments)
	if err != nil || r.IsError || json.Unmarshal(r.StructuredContent, &answer) != nil {
		c.t.Fatalf("%s %v: %+v, %v", name, arguments, r, err)
	}
	return answer
}

// refused is why a tool of the page says no.
func (c client) refused(name string, arguments args) string {
	c.t.Helper()
	r, err := c.result(name, arguments)
	if err != nil {
		return err.Error()
	}
	if !r.IsError {
		c.t.Fatalf("%s %v: %s", name, arguments, r.StructuredContent)
	}
	text, _ := mcp.TextOf(r.Content[0])
	return text
}

// begin makes a plain call, and returns how it ends.
func (c client) begin(arguments args) <-chan mcp.CallToolResult {
	done := make(chan mcp.CallToolResult, 1)
	go func() {
		r, err := c.result("say", arguments)
		if err != nil {
			r = *mcp.ErrorResult(err.Error())
		}
		done <- r
	}()
	return done
}

// mine is the task of a call, which the page asks for until it is there.
func (c client) mine(arguments args) string {
	c.t.Helper()
	for {
		if id := get[struct{ TaskID string }](c, "view_mine", args{"tool": "say", "arguments": arguments}).
			TaskID; id != "" {
			return id
		}
		if c.t.Context().Err() != nil {
			c.t.Fatal("the call is not found")
		}
	}
}

func names(t *testing.T, c client) (list, ui []string) {
	t.Helper()
	var page struct {
		Tools []struct {
			Name string
			Meta json.RawMessage `json:"_meta"`
		}
	}
	if err := c.Call(t.Context(), "tools/list", nil, &page); err != nil {
		t.Fatal(err)
	}
	for _, tool := range page.Tools {
		list = append(list, tool.Name)
		if tool.Meta != nil {
			ui = append(ui, tool.Name+" "+string(tool.Meta))
		}
	}
	return list, ui
}

// The page and its tools are there for clients that show apps, and for no others.
func TestWhoSeesThePage(t *testing.T) {
	const long = ` {"ui":{"resourceUri":"ui://runnel/task"}}`
	const app = ` {"ui":{"visibility":["app"]}}`
	other := mcp.ClientCapabilities{Extensions: map[string]any{mcp.ExtensionUI: map[string]any{"mimeTypes": []any{"text/html"}}}}
	empty := mcp.ClientCapabilities{Extensions: map[string]any{mcp.ExtensionUI: map[string]any{}}}
	w := serve(t, run.Options{})
	for _, v := range mcp.Versions {
		for name, caps := range map[string]mcp.ClientCapabilities{"shows": shows, "none": {},
			"other type": other, "no types": empty} {
			t.Run(v.Name+" "+name, func(t *testing.T) {
				w := *w
				w.t = t
				c := w.dial(v.Name, caps)
				list, ui := names(t, c)
				var resources struct {
					Resources []struct{ URI, MimeType string }
				}
				if err := c.Call(t.Context(), "resources/list", nil, &resources); err != nil {
					t.Fatal(err)
				}
				var read struct {
					Contents []struct {
						URI, MimeType, Text string
						Meta                json.RawMessage `json:"_meta"`
					}
				}
				err := c.Call(t.Context(), "resources/read", args{"uri": view.URI}, &read)
				if name != "shows" || !v.ContentMeta {
					own := []string{`paged {"ui":{"resourceUri":"ui://own/page"}}`} // the tool says so to all
					if !v.ContentMeta {
						own = nil
					}
					if slices.ContainsFunc(list, func(name string) bool {
						return strings.HasPrefix(name,
							"view_")
					}) || !slices.Equal(ui, own) {
						t.Errorf("tools %q, %q", list, ui)
					}
					if len(resources.Resources) > 0 || err == nil {
						t.Errorf("resources %+v, %+v", resources, read)
					}
					if got := c.refused("view_tasks", nil); !strings.Contains(got,
						`unknown tool: "view_tasks"`) {
						t.Errorf("the tool is called: %s", got)
					}
					return
				}
				want := []string{"ask" + long, "list_tasks" + long, `paged {"ui":{"resourceUri":"ui://own/page"}}`,
					"say" + long, "start_task" + long,
					"view_again" + app, "view_answer" + app, "view_cancel" + app, "view_files" + app, "view_history" + app,
					"view_mine" + app, "view_output" + app, "view_run" + app, "view_screen" + app,
					"view_search" + app, "view_task" + app, "view_tasks" + app, "view_times" + app,
					"view_tools" + app, "view_type" + app}
				if !slices.Equal(ui, want) {
					t.Errorf("tools %q", ui)
				}
				if len(resources.Resources) != 1 || resources.Resources[0].URI != view.URI ||
					resources.Resources[0].MimeType != mcp.AppType {
					t.Errorf("resources %+v", resources)
				}
				if err != nil || len(read.Contents) != 1 || read.Contents[0].URI != view.URI ||
					read.Contents[0].MimeType != mcp.AppType ||
					!strings.HasPrefix(read.Contents[0].Text, "<!doctype html>") ||
					string(read.Contents[0].Meta) != `{"ui":{"csp":{"connectDomains":[],"resourceDomains":[],"frameDomains":[],"baseUriDomains":[]},"prefersBorder":true}}` {
					t.Errorf("%+v, %v", read, err)
				}
			})
		}
	}
}

// The page finds a plain call while it runs and follows it to its end, which is what it would have been
// without a page.
func TestFollowsAPlainCall(t *testing.T) {
	for _, version := range []string{"2025-06-18", "2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			w := serve(t, run.Options{})
			c := w.dial(version, shows)
			done := c.begin(args{"n": 1})
			id := c.mine(args{"n": 1.0})
			w.say <- "one\n"
			first := get[output](c, "view_output", args{"taskId": id, "waitMs": 20000})
			if first.Text != "one\n" || first.Start != 0 || first.Next != 4 || first.Bytes != 4 {
				t.Errorf("%+v", first)
			}
			task := get[shown](c, "view_task", args{"taskId": id})
			if task.Tool != "say" || task.Status != "working" || task.LastLine != "one" ||
				string(task.Arguments) != `{"n":1}` || !task.Mine || !task.CanCancel || !task.CanRunAgain ||
				task.Progress == nil || task.Progress.Progress != 1 || task.Progress.Total != 2 ||
				task.Progress.Message != "one\n" {
				t.Errorf("%+v", task)
			}
			w.say <- "two \x1b[31mred\x1b[0m\n"
			close(w.say)
			var text strings.Builder
			at := first.Next
			for ended := false; !ended; {
				o := get[output](c, "view_output", args{"taskId": id, "after": at, "waitMs": 20000})
				text.WriteString(o.Text)
				at, ended = o.Next, o.Task.EndedAt != nil && o.Next == o.Bytes
			}
			if text.String() != "two \x1b[31mred\x1b[0m\n" {
				t.Errorf("%q", text.String())
			}
			result := <-done
			if said, _ := mcp.TextOf(result.Content[0]); said != "said" || result.IsError ||
				len(result.Content) != 1 || result.Meta[mcp.MetaTask] != nil {
				t.Errorf("the call: %+v", result)
			}
			task = get[shown](c, "view_task", args{"taskId": id})
			if task.Status != "completed" || task.CanCancel || !task.CanRunAgain || task.Progress != nil {
				t.Errorf("%+v", task)
			}
			if got := c.mine(args{"n": 1}); got != id {
				t.Errorf("after the end: %s", got)
			}
		})
	}
}

// Each page finds a call of its own, by its arguments, and none of another session.
func TestMine(t *testing.T) {
	w := serve(t, run.Options{})
	c := w.dial("2025-11-25", shows)
	find := func(c client, a args) string {
		return get[struct{ TaskID string }](c, "view_mine", a).TaskID
	}
	if got := find(c, args{"tool": "say"}); got != "" {
		t.Errorf("there is no call, but %s", got)
	}
	ends := []<-chan mcp.CallToolResult{c.begin(args{"n": 1}), c.begin(args{"n": 1}), c.begin(args{"n": 2})}
	two := c.mine(args{"n": 2})
	a, b := c.mine(args{"n": 1}), ""
	// The other one may not have begun.
	for b = a; b == a; b = find(c, args{"tool": "say", "arguments": args{"n": 1}}) {
	}
	if a == two || b == two || b == "" {
		t.Errorf("found %s, %s, %s", a, b, two)
	}
	if got := find(c, args{"arguments": args{"n": 2}}); got != two {
		t.Errorf("without its tool: %s, want %s", got, two)
	}
	for _, wrong := range []args{{"tool": "say", "arguments": args{"n": 3}}, {"tool": "paged"},
		{"tool": "view_mine"}} {
		if got := find(c, wrong); got != "" {
			t.Errorf("%v: %s", wrong, got)
		}
	}
	for _, other := range []client{w.dial("2025-11-25", shows), w.dial("2026-07-28", shows)} {
		if got := find(other, args{"tool": "say"}); got != "" {
			t.Errorf("another session finds %s", got)
		}
	}
	_ = w.dial("2026-07-28", shows).begin(args{"n": 9})
	w.dial("2026-07-28", shows).mine(args{"n": 9}) // there are no sessions
	close(w.say)
	for _, end := range ends {
		<-end
	}
}

// A page ends its call and starts it again, as its own task.
func TestCancelAndAgain(t *testing.T) {
	w := serve(t, run.Options{})
	c := w.dial("2025-11-25", shows)
	done := c.begin(args{"n": 7})
	id := c.mine(args{"n": 7})
	w.say <- "one\n"
	if task := get[shown](c, "view_cancel", args{"taskId": id}); task.Status != "cancelled" ||
		task.EndedAt == nil {
		t.Errorf("%+v", task)
	}
	if result := <-done; !result.IsError {
		t.Errorf("the call: %+v", result)
	}
	if got := c.refused("view_cancel", args{"taskId": id}); got != "the task has ended already: cancelled" {
		t.Error(got)
	}
	again := get[struct{ TaskID string }](c, "view_again", args{"taskId": id}).TaskID
	w.say <- "two\n"
	if o := get[output](c, "view_output", args{"taskId": again, "waitMs": 20000}); o.Text != "two\n" ||
		string(o.Task.Arguments) != `{"n":7}` {
		t.Errorf("%+v", o)
	}
	type listed struct {
		Tasks      []shown
		NextCursor string
	}
	for want, a := range map[string]args{again + id: {}, id: {"cursor": again},
		again: {"ids": []string{again, "no-such-task"}}} {
		ids := ""
		for _, task := range get[listed](c, "view_tasks", a).Tasks {
			ids += task.TaskID
		}
		if ids != want {
			t.Errorf("%v: %s, want %s", a, ids, want)
		}
	}
	if first := get[listed](c, "view_tasks", args{"max": 1}); len(first.Tasks) != 1 ||
		first.NextCursor != again {
		t.Errorf("%+v", first)
	}
	runs := get[struct {
		Runs []struct {
			TaskID, Status string
			DurationMs     int64
		}
	}](c, "view_history", args{"tool": "say"}).Runs
	if len(runs) != 2 || runs[0].TaskID != again || runs[1].TaskID != id || runs[1].Status != "cancelled" {
		t.Errorf("%+v", runs)
	}
	close(w.say)
}

// The page can run each tool that can be a task, by its schema.
func TestRunsTools(t *testing.T) {
	w := serve(t, run.Options{})
	c := w.dial("2026-07-28", shows)
	var offered []string
	for _, tool := range get[struct {
		Tools []struct {
			Name        string
			InputSchema json.RawMessage
		}
	}](c, "view_tools", nil).Tools {
		offered = append(offered, fmt.Sprintf("%s %t", tool.Name,
			strings.Contains(string(tool.InputSchema), `"n"`)))
	}
	if !slices.Equal(offered, []string{"ask false", "paged false", "say true"}) {
		t.Errorf("%q", offered)
	}
	for range 2 {
		id := get[struct{ TaskID string }](c, "view_run", args{"tool": "say", "arguments": args{"n": 5}}).
			TaskID
		if task := get[shown](c, "view_task", args{"taskId": id}); task.Status != "working" ||
			string(task.Arguments) != `{"n":5}` {
			t.Errorf("%+v", task)
		}
		for want, wrong := range map[string]args{"unknown tool": {"tool": "none"},
			`argument "n" must be an integer`: {"tool": "say", "arguments": args{"n": "x"}},
			"cannot run as a task":            {"tool": "view_run"}} {
			if got := c.refused("view_run", wrong); !strings.Contains(got, want) {
				t.Errorf("%v: %s", wrong, got)
			}
		}
	}
	close(w.say)
}

// A page answers the question of a task that another process runs, and no other question than the one that it
// shows.
func TestAnswers(t *testing.T) {
	dir := t.TempDir()
	open := func() *world {
		state := sqlite.New(sqlite.Options{Dir: dir})
		t.Cleanup(func() { _ = state.Close() })
		return serve(t, run.Options{State: state, Shared: true})
	}
	here, there := open(), open()
	c, far := here.dial("2025-11-25", mcp.ClientCapabilities{}), there.dial("2026-07-28", shows)
	for _, yes := range []bool{true, false} {
		var made mcp.CreateTaskResult
		if err := c.Call(t.Context(), "tools/call", args{"name": "ask", "task": args{}}, &made); err != nil {
			t.Fatal(err)
		}
		answer := args{"taskId": made.Task.TaskID, "message": "Publish?", "yes": yes}
		for get[shown](far, "view_task", args{"taskId": made.Task.TaskID}).Status != "input_required" {
			time.Sleep(5 * time.Millisecond)
		}
		wrong := args{"taskId": made.Task.TaskID, "message": "Delete?", "yes": yes}
		if got := far.refused("view_answer", wrong); !strings.HasPrefix(got, "the task asks something else by now") {
			t.Error(got)
		}
		get[struct{}](far, "view_answer", answer)
		var result mcp.CallToolResult
		if err := c.Call(t.Context(), "tasks/result", args{"taskId": made.Task.TaskID}, &result); err != nil {
			t.Fatal(err)
		}
		want := map[bool]string{true: "accept", false: "decline"}[yes]
		if said, _ := mcp.TextOf(result.Content[0]); said != want {
			t.Errorf("%v: %s", yes, said)
		}
		if got := far.refused("view_answer", answer); got != "the task has ended: it waits for no answer" {
			t.Error(got)
		}
	}
}

// A task of another owner is unknown to every tool, just as one that does not exist.
func TestOwners(t *testing.T) {
	state := tasks.NewMemory()
	theirs := serve(t, run.Options{State: state, Owner: "theirs"})
	c := theirs.dial("2025-11-25", shows)
	_ = c.begin(args{})
	id := c.mine(args{})
	me := serve(t, run.Options{State: state, Owner: "me"}).dial("2025-11-25", shows)
	for _, id := range []string{id, "no-such-task"} {
		for name, more := range map[string]args{"view_task": {}, "view_output": {"waitMs": 100},
			"view_search": {"pattern": "x"}, "view_cancel": {}, "view_again": {}} {
			more["taskId"] = id
			if got := me.refused(name, more); got != "task not found: it is unknown or has expired" {
				t.Errorf("%s: %s", name, got)
			}
		}
	}
	if list := get[struct{ Tasks []shown }](me, "view_tasks", nil).Tasks; len(list) != 0 {
		t.Errorf("%+v", list)
	}
	close(theirs.say)
}

// A wait ends with news, with the end, with its time, and with its request.
func TestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := serve(t, run.Options{})
		c := w.dial("2025-11-25", shows)
		_ = c.begin(args{})
		id := c.mine(args{})
		wait := func(ms, after int64) (took time.Duration, o output) {
			began := time.Now()
			o = get[output](c, "view_output", args{"taskId": id, "after": after, "waitMs": ms})
			return time.Since(began), o
		}
		if took, o := wait(20000, 0); took != 20*time.Second || o.Text != "" {
			t.Errorf("without news: %v, %+v", took, o)
		}
		if took, _ := wait(0, 0); took != 0 {
			t.Errorf("without a wait: %v", took)
		}
		go func() { time.Sleep(3 * time.Second); w.say <- "one\n" }()
		if took, o := wait(20000, 0); took != 3*time.Second || o.Text != "one\n" {
			t.Errorf("with news: %v, %+v", took, o)
		}
		go func() { time.Sleep(5 * time.Second); close(w.say) }()
		if took, o := wait(20000, 4); took != 5*time.Second || o.Task.Status != "completed" {
			t.Errorf("with the end: %v, %+v", took, o)
		}
		if took, o := wait(20000, 4); took != 0 || o.Next != 4 {
			t.Errorf("after the end: %v, %+v", took, o)
		}
		if got := c.refused("view_output", args{"taskId": id, "waitMs": 20001}); !strings.Contains(got,
			"waitMs") {
			t.Error(got)
		}
	})
}

// A wait is over when its request is cancelled: the server is done with it.
func TestWaitIsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := serve(t, run.Options{})
		c := w.dial("2025-11-25", shows)
		_ = c.begin(args{})
		id := c.mine(args{})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { time.Sleep(time.Second); cancel() }()
		if err := c.Call(ctx, "tools/call",
			args{"name": "view_output", "arguments": args{"taskId": id, "waitMs": 20000}}, nil); err == nil {
			t.Error("it was answered")
		}
		close(w.say)
		synctest.Wait()
	})
}

// A long log is read forwards and backwards in pieces that fit together, and what stands at a position stands
// there in both.
func TestPieces(t *testing.T) {
	w := serve(t, run.Options{State: sqlite.New(sqlite.Options{Dir: filepath.Join(t.TempDir(), "state")})})
	c := w.dial("2025-11-25", shows)
	_ = c.begin(args{})
	id := c.mine(args{})
	var all strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&all, "line %d %s ü\"\x01\n", i, strings.Repeat("x", i%300))
	}
	w.say <- all.String()
	close(w.say)
	want := all.String()
	var forwards strings.Builder
	for at := int64(0); ; {
		o := get[output](c, "view_output",
			args{"taskId": id, "after": at, "maxBytes": 16 << 10, "waitMs": 20000})
		forwards.WriteString(o.Text)
		if at = o.Next; o.Task.EndedAt != nil && at == o.Bytes {
			break
		}
	}
	if forwards.String() != want {
		t.Errorf("forwards: %d bytes, want %d", forwards.Len(), len(want))
	}
	backwards := ""
	for before := int64(1<<53 - 1); before > 0; {
		o := get[output](c, "view_output", args{"taskId": id, "before": before, "maxBytes": 16 << 10})
		if o.Next != min(before, o.Bytes) || o.Text != want[o.Start:o.Next] ||
			o.Start > 0 && want[o.Start-1] != '\n' {
			t.Fatalf("before %d: from %d to %d, %q", before, o.Start, o.Next, o.Text)
		}
		backwards, before = o.Text+backwards, o.Start
	}
	if backwards != want {
		t.Errorf("backwards: %d bytes, want %d", len(backwards), len(want))
	}
}

// A search finds each line once, however many calls it takes, and goes by what a reader sees.
func TestSearch(t *testing.T) {
	w := serve(t, run.Options{})
	c := w.dial("2025-11-25", shows)
	done := c.begin(args{})
	id := c.mine(args{})
	text := "first Error\nnothing\n\x1b[31mer\x1b[0mror in colours\n10%\r20% error\n" +
		strings.Repeat("another error\n", 500) + "the last error"
	w.say <- text
	close(w.say)
	<-done
	type matches struct {
		Matches []struct {
			Position int64
			Line     string
		}
		Next  *int64
		Bytes int64
	}
	var lines []string
	at := int64(0)
	for calls := 0; ; calls++ {
		m := get[matches](c, "view_search", args{"taskId": id, "pattern": "ERROR", "after": at, "max": 7})
		for _, found := range m.Matches {
			lines = append(lines, found.Line)
			if found.Line != "error in colours" && found.Line != "20% error" &&
				!strings.HasPrefix(text[found.Position:], found.Line) {
				t.Errorf("%+v", found)
			}
		}
		if m.Next == nil {
			break
		}
		if *m.Next <= at || calls > 100 {
			t.Fatalf("from %d it goes on at %d", at, *m.Next)
		}
		at = *m.Next
	}
	if len(lines) != 504 || lines[0] != "first Error" || lines[1] != "error in colours" ||
		lines[2] != "20% error" || lines[503] != "the last error" {
		t.Errorf("%d lines: %q", len(lines), lines[:min(len(lines), 4)])
	}
	if got := c.refused("view_search", args{"taskId": id, "pattern": "(a"}); !strings.Contains(got,
		"not a valid regular expression (RE2)") {
		t.Error(got)
	}
	if got := c.refused("view_search",
		args{"taskId": id, "pattern": strings.Repeat("a", 1001)}); !strings.Contains(got, "pattern") {
		t.Error(got)
	}
}

// A search ends in time, whatever it is given, and says where to go on.
func TestSearchIsBounded(t *testing.T) {
	w := serve(t, run.Options{})
	c := w.dial("2025-11-25", shows)
	done := c.begin(args{})
	id := c.mine(args{})
	w.say <- strings.Repeat(strings.Repeat("a", 4000)+"\n", 1500) // 6 MB
	close(w.say)
	<-done
	began := time.Now()
	r := get[struct{ Next *int64 }](c, "view_search",
		args{"taskId": id, "pattern": "(a|aa|aaa){30}.{0,300}b"})
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	if r.Next != nil && *r.Next <= 0 {
		t.Errorf("it goes on at %d", *r.Next)
	}
}

// A pattern that takes seconds for one line is refused.
func TestSearchRefusesLargePatterns(t *testing.T) {
	w := serve(t, run.Options{})
	c := w.dial("2025-11-25", shows)
	done := c.begin(args{})
	id := c.mine(args{})
	close(w.say)
	<-done
	for range 2 {
		if said := c.refused("view_search",
			args{"taskId": id, "pattern": "(x?x?x?){300}y"}); !strings.Contains(said, "use smaller counts") {
			t.Error(said)
		}
	}
}

// Another process with the same state follows, searches, cancels and starts anew what this one runs, and says
// what is gone.
func TestAnotherProcess(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	open := func() *world {
		state := sqlite.New(sqlite.Options{Dir: dir})
		t.Cleanup(func() { _ = state.Close() })
		return serve(t, run.Options{State: state})
	}
	here, there := open(), open()
	c, far := here.dial("2025-11-25", shows), there.dial("2026-07-28", shows)
	done := c.begin(args{"n": 3})
	id := c.mine(args{"n": 3})
	for i := range 5 {
		line := fmt.Sprintf("line %d\n", i)
		here.say <- line
		if o := get[output](far, "view_output",
			args{"taskId": id, "after": i * len(line), "waitMs": 20000}); o.Text != line ||
			o.Task.Status != "working" || o.Task.Mine {
			t.Errorf("%+v", o)
		}
	}
	if m := get[struct{ Matches []struct{ Line string } }](far, "view_search",
		args{"taskId": id, "pattern": "line [24]"}); len(m.Matches) != 2 {
		t.Errorf("%+v", m)
	}
	if list := get[struct{ Tasks []shown }](far, "view_tasks", args{"max": 1}).Tasks; len(list) != 1 ||
		list[0].TaskID != id || list[0].LastLine != "line 4" || !list[0].CanRunAgain {
		t.Errorf("%+v", list)
	}
	if task := get[shown](far, "view_cancel", args{"taskId": id}); task.Status != "cancelled" {
		t.Errorf("%+v", task)
	}
	<-done
	again := get[struct{ TaskID string }](far, "view_again", args{"taskId": id}).TaskID
	there.say <- "there\n"
	if o := get[output](c, "view_output", args{"taskId": again, "waitMs": 20000}); o.Text != "there\n" ||
		string(o.Task.Arguments) != `{"n":3}` {
		t.Errorf("%+v", o)
	}
	close(there.say)
	if o := get[output](c, "view_output",
		args{"taskId": again, "after": 6, "waitMs": 20000}); o.Task.Status != "completed" {
		t.Errorf("%+v", o)
	}
	if err := here.state.Open(tasks.DefaultOwner).Delete(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	if got := far.refused("view_output",
		args{"taskId": again, "waitMs": 20000}); got != "task not found: it is unknown or has expired" {
		t.Error(got)
	}
}
