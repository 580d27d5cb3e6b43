package serve

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tools"
	"runnel/tools/config"
	"runnel/tools/upstream"
)

// Upstreams go on until the tasks have ended. A task that waits for one, and for nothing else, keeps runnel
// no longer than the grace.
func TestStopEndsUpstreamsUnderTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		gone := make(chan struct{})
		leave := func() { t.Error("tasks are left behind that end with their upstreams") }
		stopTasks(func() { <-gone }, func() { close(gone) }, leave, 0)
		if took := time.Since(began); took != taskGrace {
			t.Errorf("stopped after %v", took)
		}
		stopTasks(func() { time.Sleep(taskGrace / 2) },
			func() { t.Error("upstreams are ended under tasks that end by themselves") }, leave, 0)
		time.Sleep(taskGrace + lastGrace)
	})
}

// A command has its whole grace, however long that is.
func TestStopWaitsForTheGraceOfCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leave := func() { t.Error("a command is left behind within its grace") }
		stopTasks(func() { time.Sleep(time.Hour) }, func() {}, leave, time.Hour)
	})
}

// Tools that are deaf to the end of their context, one that blocks and one that writes on, keep runnel no
// longer than it gives them.
func TestDeafToolsAreLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		released := make(chan struct{})
		set := upstream.NewSet(&tools.Registry{})
		for name, output := range map[string]string{"blocks": "", "writes": "on and on\n"} {
			err := set.Tools.Add(tools.Func(name,
				"", func(_ context.Context, _ struct{}, out *tools.Output) (*mcp.CallToolResult, error) {
					for pause := time.NewTicker(time.Second); ; {
						select {
						case <-released:
							return nil, nil
						case <-pause.C:
							_ = out.WriteString(output)
						}
					}
				}))
			if err != nil {
				t.Fatal(err)
			}
		}
		in, input := io.Pipe()
		stderr := &bytes.Buffer{}
		store := tasks.NewMemory()
		i := &Setup{Stdin: in, Stdout: io.Discard, Stderr: stderr}
		var failed error
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			failed = i.Connect(t.Context(), config.Default(), set, store,
				zerolog.New(zerolog.SyncWriter(stderr)))
		}()
		for _, line := range []string{
			`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`,
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"blocks","arguments":{},"task":{}}}`,
			`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"writes","arguments":{},"task":{}}}`,
			`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"blocks","arguments":{},"task":{}}}`,
			`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"blocks","arguments":{}}}`,
		} {
			_, _ = io.WriteString(input, line+"\n")
		}
		synctest.Wait()
		list, _, err := store.Open("local").List(t.Context(), tasks.OldestFirst, "", 10)
		if err != nil || len(list) != 3 {
			t.Fatalf("%d tasks are stored, %v", len(list), err)
		}
		// To be cancelled stops a tool as little.
		_, _ = fmt.Fprintf(input, `{"jsonrpc":"2.0","id":5,"method":"tasks/cancel","params":{"taskId":%q}}`+
			"\n", list[0].ID)
		_ = input.Close()
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Error("runnel has not ended after a minute")
		}
		if failed != nil {
			t.Errorf("ended with %v", failed)
		}
		for n, task := range list {
			const stopped = "runnel was stopped, as when the host closes the session; a tool with detach: always goes on"
			want := [...]string{"cancelled: cancelled by the client", "failed: " + stopped,
				"failed: " + stopped}[n]
			task, err := store.Open("local").Get(t.Context(), task.ID)
			if got := fmt.Sprintf("%s: %s", task.Status, task.StatusMessage); err != nil || got != want {
				t.Errorf("the task of %s is %s (%v), want %s", task.Tool, got, err, want)
			}
			if !strings.Contains(stderr.String(),
				`"taskId":"`+task.ID+`","owner":"local","tool":"`+task.Tool+
					`","message":"a tool has not stopped`) {
				t.Errorf("stderr does not tell of the task of %s:\n%s", task.Tool, stderr)
			}
		}
		close(released)
		synctest.Wait()
	})
}
