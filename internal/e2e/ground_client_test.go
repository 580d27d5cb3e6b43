//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"runnel/rpc/mcp"
)

// groundTask is a call, and what a client knows of its task.
type groundTask struct {
	slot     *slot
	client   *groundClient // that made the call
	owner    string
	tool     string
	since    time.Time
	number   int    // of the call, in rounds of a fleet
	chunks   int    // chunks of output, of knownBytes each; -1: the output is not known
	want     string // the result's text, "" if it is the output
	ttl      int64  // milliseconds
	detached bool
	endless  bool // it does not end by itself
	fails    bool // in any case
	anyEnd   bool // an upstream decides

	troubled  bool // something went wrong while it ran: it may have failed
	cancelled bool
	unread    bool // its client stopped reading while it ran
	id        string
	created   time.Time
	status    mcp.TaskStatus // the end, once a client has been told of it
	message   string         // the end's
	result    string         // the answer of tasks/result, "" before
	refused   bool           // it is an error
	told      string         // by whom
}

func (k *groundTask) known() bool { return k.id != "" }

func (k *groundTask) String() string {
	return fmt.Sprintf("task %s of %s (%s, slot %d, troubled %t, cancelled %t)", k.id, k.owner, k.tool,
		k.slot.number, k.troubled, k.cancelled)
}

// readable reports whether the ttl is not over, and has not been for any position that the clock had.
func (k *groundTask) readable(g *ground) bool {
	g.now()
	return g.highest.Before(k.created.Add(time.Duration(k.ttl)*time.Millisecond - 10*time.Second))
}

// groundClient is a client of one runnel. It sends without waiting, and may stop reading.
type groundClient struct {
	*witness
	g     *ground
	slot  *slot
	audit *audit
	ended atomic.Bool // somebody has ended the runnel

	partial atomic.Pointer[stalls] // is told of each partial; may be nil

	mu   sync.Mutex
	gate chan struct{}               // closed while it reads
	text map[string]*strings.Builder // the text of partials

	open []*openRequest // the driver's
}

// openRequest has not been answered yet.
type openRequest struct {
	what   string
	since  time.Time
	answer chan answer
	take   func(a answer)
}

func (g *ground) newClient(s *slot, cmd *exec.Cmd) *groundClient {
	c := &groundClient{g: g, slot: s, audit: newAudit(g.t), gate: make(chan struct{}),
		text: map[string]*strings.Builder{}}
	close(c.gate)
	c.witness = startWitness(&witness{t: g.t, watch: c, patience: groundPatience, asked: true}, cmd)
	c.in = newSender(c.in)
	return c
}

func (c *groundClient) sent(line []byte) { c.audit.sent(append(line[:len(line):len(line)], '\n')) }

// reading reads at once what there is, while the client reads at all: to look at it takes long.
func (c *groundClient) reading(out io.Reader) io.Reader {
	e := &eager{}
	e.more.L = &e.mu
	go func() {
		for buf := make([]byte, 4<<10); ; {
			c.mu.Lock()
			gate := c.gate
			c.mu.Unlock()
			<-gate
			n, err := out.Read(buf)
			e.mu.Lock()
			e.pending, e.err = append(e.pending, buf[:n]...), err
			e.more.Signal()
			e.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return e
}

// eager is what was read and not looked at yet.
type eager struct {
	mu      sync.Mutex
	more    sync.Cond
	pending []byte
	err     error
}

func (e *eager) Read(p []byte) (n int, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for len(e.pending) == 0 && e.err == nil {
		e.more.Wait()
	}
	if n = copy(p, e.pending); n == 0 {
		return 0, e.err
	}
	e.pending = e.pending[n:]
	return n, nil
}

// received is called by who looks at the server's lines.
func (c *groundClient) received(line []byte) {
	if err := c.audit.received(line, time.Time{}); err != nil {
		c.t.Errorf("slot %d: %s\n    %v", c.slot.number, clipLine(line), err)
	}
	if p, err := decodePartial(line); err == nil && p.Params.TaskID != "" {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.text[p.Params.TaskID] == nil {
			c.text[p.Params.TaskID] = &strings.Builder{}
		}
		c.text[p.Params.TaskID].WriteString(p.text())
		if noted := c.partial.Load(); noted != nil {
			noted.partial(p.Params.TaskID)
		}
	}
	c.answerQuestion(line)
}

// answerQuestion answers what a runnel asks the user: well, with a refusal, with nonsense, or never, as its
// number says.
func (c *groundClient) answerQuestion(line []byte) {
	var question struct {
		ID     int
		Method string
	}
	if json.Unmarshal(line, &question) != nil || question.Method != "elicitation/create" {
		return
	}
	answers := []string{`"result":{"action":"accept","content":{"answer":"yes"}}`,
		`"result":{"action":"decline"}`, `"result":{"action":"accept","content":{"answer":1}}`, ""}
	if answer := answers[question.ID%len(answers)]; answer != "" {
		c.audit.crosses(strconv.Itoa(question.ID))
		c.raw(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,%s}`, question.ID, answer))
	}
}

func (c *groundClient) stall() {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.gate:
		c.gate = make(chan struct{})
	default:
	}
}

func (c *groundClient) stalled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.gate:
		return false
	default:
		return true
	}
}

func (c *groundClient) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.gate:
	default:
		close(c.gate)
	}
}

func (c *groundClient) kill() {
	c.ended.Store(true)
	c.resume()
	c.witness.kill()
	c.checkLog()
}

func (c *groundClient) closeInput() {
	c.audit.closed()
	_ = c.in.Close()
}

// abort makes a runnel that hangs say where.
func (c *groundClient) abort() {
	_ = c.cmd.Process.Signal(abortSignal)
	select {
	case <-c.gone:
	case <-time.After(10 * time.Second):
	}
	c.t.Errorf("where it hung:\n%s", &c.log)
	_ = c.cmd.Process.Kill()
	<-c.gone
}

var broken = regexp.MustCompile(`(?m)^WARNING: DATA RACE|^panic: |^fatal error: |^\[signal SIG|^runtime: `)

func (c *groundClient) checkLog() {
	if text := c.log.String(); broken.MatchString(text) {
		c.t.Errorf("slot %d, stderr:\n%s", c.slot.number, text)
	}
}

func (c *groundClient) askFor(what, method string, params any, take func(a answer)) {
	c.open = append(c.open, &openRequest{what, time.Now(), c.ask(method, params), take})
}

func (c *groundClient) askOther(method string, params any) {
	c.askFor(method, method, params, func(answer) {})
}

func (c *groundClient) raw(line string) {
	c.audit.sent([]byte(line + "\n"))
	_, _ = c.in.Write([]byte(line + "\n"))
}

// call asks for a task, and notes its id when it comes.
func (c *groundClient) call(k *groundTask, method string, params any) {
	k.client, k.unread = c, c.stalled()
	c.g.tasks = append(c.g.tasks, k)
	c.askFor("a call of "+k.tool, method, params, func(a answer) {
		var created struct {
			mcp.Task
			Handle mcp.Task `json:"task"`
			Meta   struct {
				Task struct{ TaskID string } `json:"runnel/task"` // if the call was handed over
			} `json:"_meta"`
		}
		if a.Error != nil || json.Unmarshal(a.Result, &created) != nil {
			return
		}
		task := created.Handle
		if task.TaskID == "" {
			task = created.Task
		}
		if task.TaskID == "" {
			return // answered at once, or a call that was handed over, whose ttl is not told
		}
		at, err := time.Parse(time.RFC3339Nano, task.CreatedAt)
		if err != nil {
			c.t.Errorf("a task was created at %q", task.CreatedAt)
		}
		k.id, k.created = task.TaskID, at
		if k.ttl > 3600_000 && created.Handle.TaskID == "" {
			k.ttl = 3600_000 // a stateless one has the default
		}
	})
}

// saw notes an end that a client was told of, once and for all. But one that could not be stored is known to
// its own runnel alone, and lost with it: for the others the task works on, and has failed when that runnel
// is gone.
func (k *groundTask) saw(c *groundClient, task mcp.Task, by string) {
	switch {
	case k.status == "" && !task.Status.Terminal(), k.status == task.Status:
	case k.status == "":
		k.status = task.Status
		k.message = task.StatusMessage
		k.told = fmt.Sprintf("%s in slot %d", by, c.slot.number)
	case k.troubled && unstored(k.status, k.message) &&
		(!task.Status.Terminal() || recovered(task.StatusMessage)):
	case k.troubled && recovered(k.message) && unstored(task.Status, task.StatusMessage):
	default:
		c.t.Errorf("%v: %s %q by %s in slot %d, had ended %s %q by %s", k, task.Status, task.StatusMessage,
			by, c.slot.number, k.status, k.message, k.told)
	}
}

// unstored reports whether an end may not have been stored when it was told. A cancelled task is told as such
// in any case: "receivers MUST transition the task to cancelled status before sending the response".
func unstored(status mcp.TaskStatus, message string) bool {
	return status == mcp.TaskCancelled || strings.Contains(message, "could not be stored")
}

func recovered(message string) bool {
	return strings.HasPrefix(message, "the runnel that ran this task is gone")
}

func (c *groundClient) get(k *groundTask, method string) {
	ended := k.status // asked after that was told
	c.askFor(method, method, map[string]any{"taskId": k.id}, func(a answer) {
		var task mcp.Task
		if a.Error != nil {
			c.lost(k, method, a)
		} else if json.Unmarshal(a.Result, &task) == nil && (ended != "" || task.Status.Terminal()) {
			k.saw(c, task, method)
		}
	})
}

func (c *groundClient) result(k *groundTask) {
	c.askFor("tasks/result", "tasks/result", map[string]any{"taskId": k.id}, func(a answer) {
		var result struct {
			Content json.RawMessage
			IsError bool
		}
		if a.Error != nil {
			c.lost(k, "tasks/result", a)
			// a runnel that has no files left cannot read its state: the next one may have the result.
			if k.result == "" {
				k.result, k.refused = a.Error.Message, true
			}
			return
		}
		if err := json.Unmarshal(a.Result, &result); err != nil {
			c.t.Errorf("%v: %v", k, err)
			return
		}
		text := fmt.Sprintf("%t %s", result.IsError, result.Content)
		if k.result == "" || k.refused {
			k.result, k.refused = text, false
		}
		if k.result != text && k.status == mcp.TaskCompleted {
			c.t.Errorf("%v: its result in slot %d is %.300s, was %.300s", k, c.slot.number, text, k.result)
		}
	})
}

// lost holds that a task that a client was told of is not unknown before its ttl is over. An upstream that
// was killed has forgotten its own task: that is how ours has ended, and the error names the upstream first.
func (c *groundClient) lost(k *groundTask, method string, a answer) {
	if strings.Contains(a.Error.Message, "unknown or has expired") &&
		!strings.HasPrefix(a.Error.Message, "upstream ") && k.readable(c.g) {
		c.t.Errorf("%v: %s in slot %d: %s; created %v, ttl %d ms, the clock %v", k, method, c.slot.number,
			a.Error.Message, k.created, k.ttl, c.g.now())
	}
}

// foreign asks for what belongs to another owner.
func (c *groundClient) foreign(k *groundTask, method string) {
	c.askFor(method, method, map[string]any{"taskId": k.id}, func(a answer) {
		if a.Error == nil {
			c.t.Errorf("%v is seen by %s: %s", k, c.slot.owner, a.Result)
		}
	})
}

// take takes the answers that have come.
func (c *groundClient) take() {
	rest := c.open[:0]
	for _, r := range c.open {
		select {
		case a := <-r.answer:
			r.take(a)
		default:
			rest = append(rest, r)
		}
	}
	c.open = rest
}

// sender is a pipe to a process that may have stopped: who writes does not wait.
type sender struct {
	mu     sync.Mutex
	lines  chan []byte
	closed bool
}

func newSender(to io.WriteCloser) *sender {
	s := &sender{lines: make(chan []byte, 10_000)}
	go func() {
		for line := range s.lines {
			_, _ = to.Write(line) // fails when the process is gone
		}
		_ = to.Close()
	}()
	return s
}

func (s *sender) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, io.ErrClosedPipe
	}
	s.lines <- line
	return len(line), nil
}

func (s *sender) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		close(s.lines)
	}
	return nil
}
