package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"runnel/rpc/mcp"
)

// witness is a client of a process that may be killed at any moment: it believes only what it has read.
type witness struct {
	t   testing.TB
	cmd *exec.Cmd
	in  io.WriteCloser
	log syncBuffer

	mu       sync.Mutex
	lastID   int
	answers  map[int]chan answer
	statuses map[string]mcp.Task // the terminal one of each task that was told
	updates  map[string]int      // notifications/resources/updated, by URI
	partials map[string]int      // of a task, without a gap: so this is the next seq
	acks     map[int]chan string // the acknowledgement of each subscriptions/listen
	gone     chan struct{}

	watch    watcher       // may be nil
	patience time.Duration // how long what must come may take
	asked    bool          // its user can be asked: the watcher answers
	plain    bool          // it has no tasks
}

// watcher sees each line of both directions; the server's is seen before the witness looks at it.
type watcher interface {
	// reading is asked once, for how the server's output is read.
	reading(out io.Reader) io.Reader
	sent(line []byte)
	received(line []byte)
}

type answer struct {
	Result json.RawMessage
	Error  *struct {
		Code    int
		Message string
	}
}

func newWitness(t testing.TB, cmd *exec.Cmd) *witness {
	t.Helper()
	return startWitness(&witness{t: t, patience: watchdog}, cmd)
}

func startWitness(w *witness, cmd *exec.Cmd) *witness {
	t := w.t
	t.Helper()
	w.cmd, w.gone = cmd, make(chan struct{})
	w.answers = map[int]chan answer{}
	w.statuses = map[string]mcp.Task{}
	w.updates = map[string]int{}
	w.partials = map[string]int{}
	w.acks = map[int]chan string{}
	in, pipe := pipes(t, cmd)
	out := io.Reader(pipe)
	if w.watch != nil {
		out = w.watch.reading(pipe)
	}
	w.in, cmd.Stderr = in, &w.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go w.read(out)
	t.Cleanup(w.kill)
	var opened mcp.InitializeResult
	capabilities := map[string]any{"tasks": map[string]any{"streaming": map[string]any{"partial": map[string]any{}}}}
	if w.plain {
		delete(capabilities, "tasks")
	}
	if w.asked {
		capabilities["elicitation"] = map[string]any{}
	}
	w.must(&opened, "initialize", map[string]any{"protocolVersion": newestHandshake,
		"clientInfo": map[string]any{"name": "witness", "version": "1"}, "capabilities": capabilities})
	return w
}

func (w *witness) read(out io.Reader) {
	defer close(w.gone)
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		if len(line) > maxOutgoing {
			w.t.Errorf("a line of %d bytes: %s", len(line), clipLine(line))
		}
		if w.watch != nil {
			w.watch.received(line[:len(line)-1])
		}
		var m struct {
			ID     *int
			Method string
			Params struct {
				mcp.Task
				URI  string
				Seq  int
				Meta struct {
					Subscription int `json:"io.modelcontextprotocol/subscriptionId"`
				} `json:"_meta"`
				Notifications json.RawMessage
			}
			answer
		}
		if err := json.Unmarshal(line, &m); err != nil {
			w.t.Errorf("%v: %s", err, clipLine(line))
			continue
		}
		w.mu.Lock()
		switch {
		case m.ID != nil && m.Method != "": // a question
		case m.ID != nil && w.answers[*m.ID] != nil:
			w.answers[*m.ID] <- m.answer
			delete(w.answers, *m.ID)
		case m.Method == "notifications/tasks/status" && m.Params.Status.Terminal():
			if before, told := w.statuses[m.Params.TaskID]; told {
				w.t.Errorf("two ends of %s: %s, %s", m.Params.TaskID, before.Status, m.Params.Status)
			}
			w.statuses[m.Params.TaskID] = m.Params.Task
		case m.Method == "notifications/tasks/partial":
			if end, told := w.statuses[m.Params.TaskID]; told {
				w.t.Errorf("partial %d of %s after its end: %s", m.Params.Seq, m.Params.TaskID, end.Status)
			}
			if next := w.partials[m.Params.TaskID]; m.Params.Seq != next {
				w.t.Errorf("partial %d of %s, want %d", m.Params.Seq, m.Params.TaskID, next)
			}
			w.partials[m.Params.TaskID]++
		case m.Method == "notifications/subscriptions/acknowledged":
			w.ack(m.Params.Meta.Subscription) <- string(m.Params.Notifications)
		case m.Method == "notifications/resources/updated":
			w.updates[m.Params.URI]++
		}
		w.mu.Unlock()
	}
}

// ask sends a request; the channel gets its answer, unless the process dies before.
func (w *witness) ask(method string, params any) chan answer {
	_, got := w.send(method, params)
	return got
}

// send is ask for who wants to know the request's id.
func (w *witness) send(method string, params any) (id int, got chan answer) {
	got = make(chan answer, 1)
	w.mu.Lock()
	w.lastID++
	id = w.lastID
	w.answers[id] = got
	w.mu.Unlock()
	w.write(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params})
	return id, got
}

func (w *witness) notify(method string, params any) {
	w.write(map[string]any{"jsonrpc": "2.0", "method": method, "params": params})
}

func (w *witness) write(message any) {
	line, err := json.Marshal(message)
	if err != nil {
		w.t.Fatal(err)
	}
	if w.watch != nil {
		w.watch.sent(line)
	}
	_, _ = w.in.Write(append(line, '\n')) // fails when the process is gone
}

// call is ask for an answer that must come.
func (w *witness) call(method string, params any) answer {
	w.t.Helper()
	got := w.ask(method, params)
	select {
	case a := <-got:
		return a
	case <-w.gone:
		w.t.Fatalf("%s: the process is gone\nstderr:\n%s", method, &w.log)
	case <-time.After(w.patience):
		w.t.Fatalf("%s: no answer\nstderr:\n%s", method, &w.log)
	}
	return answer{}
}

// must is call for a result.
func (w *witness) must(result any, method string, params any) {
	w.t.Helper()
	a := w.call(method, params)
	if a.Error != nil {
		w.t.Fatalf("%s %v: %d %s\nstderr:\n%s", method, params, a.Error.Code, a.Error.Message, &w.log)
	}
	if err := json.Unmarshal(a.Result, result); err != nil {
		w.t.Fatalf("%s: %v: %s", method, err, a.Result)
	}
}

// output reads a task's output from the beginning, by its resource.
func (w *witness) output(id string) string {
	w.t.Helper()
	var b strings.Builder
	for after := int64(0); ; {
		var page readResourceResult
		w.must(&page, "resources/read",
			map[string]any{"uri": fmt.Sprintf("runnel://tasks/%s/log?after=%d", id, after)})
		if page.Contents[0].Text == "" {
			return b.String()
		}
		b.WriteString(page.Contents[0].Text)
		after = int64(page.Contents[0].Meta[mcp.MetaNext].(float64))
	}
}

// endOf is what the end of a task was told to be, "" before it.
func (w *witness) endOf(id string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if end, told := w.statuses[id]; told {
		return fmt.Sprintf("%s %s", end.Status, end.StatusMessage)
	}
	return ""
}

// count is how often a resource was said to have changed.
func (w *witness) count(uri string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.updates[uri]
}

// acknowledged is what a subscriptions/listen agrees to.
func (w *witness) acknowledged(request int) string {
	w.t.Helper()
	w.mu.Lock()
	ack := w.ack(request)
	w.mu.Unlock()
	select {
	case said := <-ack:
		return said
	case <-time.After(w.patience):
		w.t.Fatalf("subscriptions/listen: no acknowledgement\nstderr:\n%s", &w.log)
	}
	return ""
}

// ack is where the acknowledgement of a request comes. w.mu is held.
func (w *witness) ack(request int) chan string {
	if w.acks[request] == nil {
		w.acks[request] = make(chan string, 1)
	}
	return w.acks[request]
}

// partialsOf is how many partials of a task have come.
func (w *witness) partialsOf(id string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.partials[id]
}

func (w *witness) kill() {
	_ = w.cmd.Process.Kill()
	<-w.gone
	_ = w.cmd.Wait()
	_ = w.in.Close()
}

// end closes stdin and waits for the exit.
func (w *witness) end() {
	w.t.Helper()
	_ = w.in.Close()
	select {
	case <-w.gone:
	case <-time.After(w.patience):
		w.t.Fatal("the server does not exit")
	}
	_ = w.cmd.Wait()
	if code := w.cmd.ProcessState.ExitCode(); code != 0 {
		w.t.Errorf("exit code %d\nstderr:\n%s", code, &w.log)
	}
}
