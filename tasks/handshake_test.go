package tasks

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"runnel/rpc"
	"runnel/rpc/mcp"
)

// An answer to tasks/get that shows a task working is not overtaken by the task's end: a client that has been
// told of an end is not told afterwards that the task works.
func TestGetIsNotOvertakenByTheEnd(t *testing.T) {
	for era, get := range map[string]func(r *Runner, id string) (any, error){
		"handshake": func(r *Runner, id string) (any, error) {
			return r.getTask(t.Context(), &rpc.Caller{}, mcp.TaskParams{TaskID: id})
		},
		"stateless": func(r *Runner, id string) (any, error) {
			return r.getDetailed(t.Context(), &rpc.Caller{}, mcp.UpdateTaskParams{TaskID: id})
		},
	} {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			r := newRunner(t, Options{})
			s := start(t, r, untilDone)
			s.Deliver(delivered)
			answer, err := get(r, s.ID())
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
	r := NewRunner(Options{Log: zerolog.Nop()}) // to close it would wait for what this test finds
	s := start(t, r, untilDone)
	s.Deliver(delivered)
	srv := rpc.NewServer(nil)
	r.Register(srv)
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
		batch[n] = fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{"taskId":%q,%s}}`, n+1, method, s.ID(), meta)
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
