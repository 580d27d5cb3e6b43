package methods

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/run"
	"runnel/tasks/statetest"
)

// An answer to tasks/get that shows a task working is not overtaken by the task's end: a client that has been
// told of an end is not told afterwards that the task works.
func TestGetIsNotOvertakenByTheEnd(t *testing.T) {
	for era, get := range map[string]func(m *methods, id string) (any, error){
		"handshake": func(m *methods, id string) (any, error) {
			return m.getTask(t.Context(), &rpc.Caller{}, mcp.TaskParams{TaskID: id})
		},
		"stateless": func(m *methods, id string) (any, error) {
			return m.getDetailed(t.Context(), &rpc.Caller{}, mcp.UpdateTaskParams{TaskID: id})
		},
	} {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			r := statetest.NewRunner(t, run.Options{})
			s := statetest.Start(t, r, statetest.UntilDone)
			s.Delivered()
			answer, err := get(&methods{Runner: r}, s.ID())
			if err != nil {
				t.Fatal(err)
			}
			go s.Cancel("")
			select {
			case <-s.Ended():
				t.Error("the end is told while an answer that shows the task working is under way")
			case <-time.After(50 * time.Millisecond):
			}
			if queued, ok := answer.(rpc.After); ok {
				queued.Do()
			}
			<-s.Ended()
		})
	}
}

// A batch that cancels a task and asks for it is answered: its answers wait for each other, and the end of
// the task for none of them.
func TestGetInABatchHoldsUpNoEnd(t *testing.T) {
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
	r := run.NewRunner(run.Options{Log: zerolog.Nop()}) // to close it would wait for what this test finds
	s := statetest.Start(t, r, statetest.UntilDone)
	s.Delivered()
	srv := rpc.NewServer(nil)
	Register(srv, r)
	in, send := io.Pipe()
	receive, out := io.Pipe()
	go func() { _ = srv.Serve(t.Context(), in, out) }()
	defer send.Close()
	fmt.Fprintf(send, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`+"\n")
	batch := make([]string, 20)
	for n := range batch {
		method := "tasks/get"
		if n == len(batch)/2 {
			method = "tasks/cancel"
		}
		batch[n] = fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{"taskId":%q,%s}}`, n+1, method,
			s.ID(), meta)
	}
	answered := make(chan string, 2)
	go func() {
		for lines := bufio.NewScanner(receive); lines.Scan(); {
			answered <- lines.Text()
		}
	}()
	<-answered
	fmt.Fprintf(send, "[%s]\n", strings.Join(batch, ","))
	select {
	case answer := <-answered:
		var answers []json.RawMessage
		if err := json.Unmarshal([]byte(answer), &answers); err != nil || len(answers) != len(batch) {
			t.Errorf("%d of %d answers, %v", len(answers), len(batch), err)
		}
	case <-time.After(time.Minute):
		t.Fatal("a task and the batch that asks for it wait for each other")
	}
	r.Close()
}

// Task events go to the log with ids and owner, and never with content.
func TestAuditLog(t *testing.T) {
	var log bytes.Buffer
	r := run.NewRunner(run.Options{Owner: "me", Limits: tasks.Limits{MaxLive: 1}, Log: zerolog.New(&log)})
	s := statetest.Start(t, r, func(ctx context.Context, _ *run.Run) run.Done {
		<-ctx.Done()
		return run.Done{Result: mcp.Result("secret"), Status: "secret"}
	})
	s.Delivered()
	if _, err := r.Start(t.Context(),
		run.Spec{Handle: true, Tool: "other", Work: statetest.UntilDone}); err == nil {
		t.Error("not refused")
	}
	s.Cancel("")
	if _, err := (&methods{Runner: r}).
		taskResult(t.Context(), &rpc.Caller{Version: &mcp.Version{}},
			mcp.TaskParams{TaskID: s.ID()}); err != nil {
		t.Error(err)
	}
	r.Close()
	if strings.Contains(log.String(), "secret") {
		t.Errorf("content in the log: %s", &log)
	}
	var events []string
	for line := range strings.Lines(log.String()) {
		var e struct{ Message, TaskID, Owner string }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if e.TaskID == "" || e.Owner != "me" {
			t.Errorf("without taskId or owner: %s", line)
		}
		events = append(events, e.Message)
	}
	if got := strings.Join(events,
		", "); got != "task created, task refused, task ended, task result retrieved" {
		t.Errorf("events: %s", got)
	}
}
