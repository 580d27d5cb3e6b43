package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	mixedClients = 10 // clients of each era at once
	mixedScripts = 10 // scripts of each client
	mixedLength  = 10 // requests of a script
	mixedEach    = mixedClients * mixedScripts * mixedLength
)

// Two eras on one pipe: the traffic of a session of 2025-11-25 that streams its tasks, and requests of
// 2026-07-28 in between. Every answer and every notification has the shape of the era of the request that it
// belongs to (by its marks here, by its schema in the session's audit), and every request has exactly one
// answer.
func TestMixedEras(t *testing.T) {
	s := inProcess(t, "--selftest", "--immediate-wait", "1ms", "--max-tasks", "1000")
	s.open()
	ctx, stop := context.WithTimeout(t.Context(), 2*watchdog)
	defer stop()
	m := &mixed{s: s, ctx: ctx, calls: map[string]*mixedCall{}, tasks: map[string]*mixedTask{},
		seq: map[string]int{}}
	first := make(chan error, 1) // the first error; the others follow from it
	failed := func(err error) {
		select {
		case first <- err:
		default:
		}
		stop()
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		if err := m.read(); err != nil {
			failed(err)
		}
	}()

	began := time.Now()
	var clients sync.WaitGroup
	for range mixedClients {
		a, b := make(chan struct{}, 1), make(chan struct{}, 1)
		a <- struct{}{}
		for _, client := range []mixedClient{{m, handshakeScript, a, b}, {m, statelessScript, b, a}} {
			clients.Go(func() {
				for i := range mixedScripts {
					if err := client.script(&client, i); err != nil {
						failed(err)
						return
					}
				}
			})
		}
	}
	clients.Wait()
	_ = s.closeStdin() // ends the subscriptions, which are still open
	<-read
	select {
	case err := <-first:
		t.Fatalf("%v\nstderr:\n%s", err, s.stderr)
	default:
	}
	if <-s.exited; s.code != 0 {
		t.Errorf("exit code %d", s.code)
	}
	sent := map[bool]int{}
	for id, c := range m.calls {
		if sent[c.stateless]++; c.answers != 1 {
			t.Errorf("request %s has %d answers", id, c.answers)
		}
	}
	if sent[false] != mixedEach || sent[true] != mixedEach {
		t.Errorf("requests of each era: %v, want %d", sent, mixedEach)
	}
	if least := 2*mixedScripts*mixedLength - 1; m.turns < least { // those of a single pair
		t.Errorf("only %d changes from one era to the other, want %d or more", m.turns, least)
	}
	t.Logf("%d requests of each era with %d changes from one to the other, %d notifications, %v",
		mixedEach, m.turns, m.notifications, time.Since(began).Round(time.Millisecond))
}

// handshakeScript is what a client of the session does: tasks with partials, results, cancels, and plain
// calls.
func handshakeScript(m *mixedClient, _ int) error {
	if err := m.says("tools/call", `{"name":"echo","arguments":{"text":"plain"}}`,
		`"text":"plain"`); err != nil {
		return err
	}
	id, err := m.startTask(`{"name":"stream","arguments":{"count":20,"intervalMs":1},"task":{}}`)
	return errors.Join(err,
		m.says("tasks/get", `{"taskId":"`+id+`"}`, `"taskId":"`+id+`"`),
		m.says("tasks/result", `{"taskId":"`+id+`"}`, `"streamed 20 chunks"`),
		m.ends(id, "completed"),
		m.cancelTask(`{"name":"sleep","arguments":{"ms":3600000},"task":{"ttl":60000}}`),
		m.says("tasks/list", `{}`, `"tasks":[`),
		m.says("tools/list", `{}`, `"name":"echo"`),
		m.says("ping", `{}`, `{}`),
		m.says("tools/call", `{"name":"test_tool_with_progress","_meta":{"progressToken":"handshake `+id+
			`"}}`, `"content"`),
	)
}

// cancelTask starts a task of the session and cancels it.
func (m *mixedClient) cancelTask(call string) error {
	id, err := m.startTask(call)
	return errors.Join(err, m.says("tasks/cancel", `{"taskId":"`+id+`"}`, `"cancelled"`),
		m.ends(id, "cancelled"))
}

// Capabilities of clients of the stateless era.
const (
	elicits       = `"elicitation":{"form":{}}`
	takes         = `"extensions":{"io.modelcontextprotocol/tasks":{},"runnel/task-partials":{}}`
	takesPartials = `"partialResults":{}`
)

// inEra makes the params of a stateless request: members are those of params, without braces.
func inEra(capabilities, meta, members string) string {
	if meta != "" {
		meta = "," + meta
	}
	if members != "" {
		members = "," + members
	}
	return `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"mixed","version":"1"},` +
		`"io.modelcontextprotocol/clientCapabilities":{` + capabilities + `}` + meta + `}` + members + `}`
}

// statelessScript is what a client of 2026-07-28 does. What it can take differs from request to request.
func statelessScript(m *mixedClient, i int) error {
	first, names := "server/discover", `"supportedVersions"`
	if i%2 == 1 {
		first, names = "tools/list", `"ttlMs"`
	}
	token := strconv.FormatInt(m.number(), 10)
	err := errors.Join(
		m.says(first, inEra("", "", ""), names),
		m.says("tools/call", inEra("", "", `"name":"echo","arguments":{"text":"stateless"}`),
			`"text":"stateless"`),
		m.says("tools/call", inEra(takesPartials, `"partialResultToken":"`+token+`"`,
			`"name":"stream","arguments":{"count":5}`), `"streamed 5 chunks"`),
	)
	if err != nil {
		return err
	}

	id, err := m.startTask(inEra(takes, "", `"name":"stream","arguments":{"count":20,"intervalMs":2}`))
	if err != nil {
		return err
	}
	if _, err := m.send("subscriptions/listen",
		inEra(takes, "", `"notifications":{"taskIds":["`+id+`"]}`)); err != nil {
		return err
	}
	err = errors.Join(m.ends(id, "completed"),
		m.says("tasks/get", inEra(takes, "", `"taskId":"`+id+`"`), `"streamed 20 chunks"`))
	if err != nil {
		return err
	}

	if id, err = m.startTask(inEra(takes, "", `"name":"sleep","arguments":{"ms":3600000}`)); err != nil {
		return err
	}
	if err := m.says("tasks/cancel", inEra(takes, "", `"taskId":"`+id+`"`), `"complete"`); err != nil {
		return err
	}

	// A question, answered by calling again.
	const ask = `"name":"ask","arguments":{"message":"Who?"}`
	result, err := m.request("tools/call", inEra(elicits, "", ask))
	if err != nil {
		return err
	}
	var asks struct {
		RequestState  json.RawMessage            `json:"requestState"`
		InputRequests map[string]json.RawMessage `json:"inputRequests"`
	}
	if err := json.Unmarshal(result, &asks); err != nil || len(asks.InputRequests) != 1 {
		return fmt.Errorf("no question: %s, %w", result, err)
	}
	for key := range asks.InputRequests {
		answer := fmt.Sprintf(`,"requestState":%s,"inputResponses":{%q:{"action":"accept","content":{"answer":"Ada"}}}`, asks.RequestState, key)
		err = m.says("tools/call", inEra(elicits, "", ask+answer), `accepted: Ada`)
	}
	return err
}

// mixed is the client's end of the pipe, for the clients of both eras.
type mixed struct {
	s   *session
	ctx context.Context

	mu            sync.Mutex
	calls         map[string]*mixedCall // by the id's bytes
	tasks         map[string]*mixedTask // by id
	seq           map[string]int        // the next partial's, by its carrier: a task, a subscription, a token
	last          int64
	lastStateless bool
	turns         int
	notifications int
}

// mixedClient sends its requests by turns with a client of the other era.
type mixedClient struct {
	*mixed
	script      func(*mixedClient, int) error
	turn, other chan struct{} // hold an element when it is this client's turn, or the other's
}

type mixedCall struct {
	stateless bool
	params    string
	answers   int
	result    json.RawMessage
	answered  chan struct{}
}

type mixedTask struct {
	stateless bool
	status    string // the last that was told
	ended     chan struct{}
}

func (m *mixed) number() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last++
	return m.last
}

// send sends a request and returns without its answer.
func (m *mixedClient) send(method, params string) (*mixedCall, error) {
	select {
	case <-m.turn:
		defer func() { m.other <- struct{}{} }()
	case <-m.ctx.Done():
		return nil, fmt.Errorf("%s: the client of the other era has not had its turn", method)
	}
	c := &mixedCall{stateless: strings.Contains(params, `"io.modelcontextprotocol/protocolVersion"`),
		params: params, answered: make(chan struct{})}
	id := strconv.FormatInt(m.number(), 10)
	m.mu.Lock()
	m.calls[id] = c
	if m.lastStateless != c.stateless {
		m.turns++
	}
	m.lastStateless = c.stateless
	m.mu.Unlock()
	return c, m.s.send(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`+"\n", id,
		method, params))
}

// request sends a request and waits for its result.
func (m *mixedClient) request(method, params string) (json.RawMessage, error) {
	c, err := m.send(method, params)
	if err != nil {
		return nil, err
	}
	select {
	case <-c.answered:
		return c.result, nil
	case <-m.ctx.Done():
		return nil, fmt.Errorf("no answer to %s %s", method, params)
	}
}

func (m *mixedClient) says(method, params, want string) error {
	result, err := m.request(method, params)
	if err == nil && !strings.Contains(string(result), want) {
		err = fmt.Errorf("%s %s gives %s, want %s", method, params, clipLine(result), want)
	}
	return err
}

// startTask makes a call that is answered with a task and returns its id.
func (m *mixedClient) startTask(params string) (string, error) {
	result, err := m.request("tools/call", params)
	if err != nil {
		return "", err
	}
	id := taskOf(result)
	if id == "" {
		return "", fmt.Errorf("a call %s gives %s, want a task", params, clipLine(result))
	}
	return id, nil
}

// ends waits until a terminal status of a task is told.
func (m *mixed) ends(id, status string) error {
	m.mu.Lock()
	task := m.tasks[id]
	m.mu.Unlock()
	if task == nil {
		return fmt.Errorf("there is no task %q", id)
	}
	select {
	case <-task.ended:
	case <-m.ctx.Done():
		return fmt.Errorf("the end of task %s is not told", id)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if task.status != status {
		return fmt.Errorf("task %s ends as %s, want %s", id, task.status, status)
	}
	return nil
}

// taskOf is the id of the task that a result hands out, in the shape of either era; "" if it hands out none.
func taskOf(result json.RawMessage) string {
	var r struct {
		ResultType string                  `json:"resultType"`
		TaskID     string                  `json:"taskId"`
		Task       struct{ TaskID string } `json:"task"`
	}
	_ = json.Unmarshal(result, &r)
	if r.ResultType == "task" {
		return r.TaskID
	}
	return r.Task.TaskID
}

// read takes what the server writes, until it ends.
func (m *mixed) read() error {
	for {
		line, err := m.s.next(watchdog)
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = m.take(line)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", clipLine(line), err)
		}
	}
}

func (m *mixed) take(line []byte) error {
	var e envelope
	if err := json.Unmarshal(line, &e); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.Method != nil {
		m.notifications++
		return m.told(e)
	}
	c := m.calls[string(e.ID)]
	if c == nil || e.Error != nil {
		return errors.New("an answer that is not expected")
	}
	var r map[string]json.RawMessage
	if err := json.Unmarshal(e.Result, &r); err != nil {
		return err
	}
	var meta map[string]json.RawMessage
	_ = json.Unmarshal(r["_meta"], &meta)
	if typed, named := r["resultType"] != nil,
		meta["io.modelcontextprotocol/serverInfo"] != nil; typed != c.stateless || named != c.stateless {
		return errors.New("an answer in the shape of the other era")
	}
	if id := taskOf(e.Result); id != "" && m.tasks[id] == nil {
		m.tasks[id] = &mixedTask{stateless: c.stateless, ended: make(chan struct{})}
	}
	if c.answers++; c.answers > 1 {
		return errors.New("a second answer")
	}
	c.result = e.Result
	close(c.answered)
	return nil
}

// told takes a notification: it must be one of the era of what it belongs to.
func (m *mixed) told(e envelope) error {
	var p struct {
		TaskID string                     `json:"taskId"`
		Status string                     `json:"status"`
		Seq    int                        `json:"seq"`
		Token  string                     `json:"partialResultToken"`
		Mine   string                     `json:"progressToken"`
		Meta   map[string]json.RawMessage `json:"_meta"`
	}
	if err := json.Unmarshal(e.Params, &p); err != nil {
		return err
	}
	subscription := string(p.Meta["io.modelcontextprotocol/subscriptionId"])
	if c := m.calls[subscription]; subscription != "" &&
		(c == nil || !c.stateless || !strings.Contains(c.params, p.TaskID)) {
		return errors.New("no subscription asked for it")
	}
	inSession := subscription == ""
	carrier := ""
	switch e.method() {
	case "notifications/tasks/status":
		if !inSession {
			return errors.New("a status in the shape of the other era")
		}
	case "notifications/tasks", "notifications/subscriptions/acknowledged":
		if inSession {
			return errors.New("it names no subscription")
		}
	case partialMethod:
		carrier = p.TaskID + subscription
	case "notifications/tools/partial_result":
		carrier = "token " + p.Token
	case "notifications/progress":
		if !inSession || !strings.HasPrefix(p.Mine, "handshake ") {
			return errors.New("progress that was not asked for")
		}
	default:
		return errors.New("an unknown notification")
	}
	if carrier != "" {
		if p.Seq != m.seq[carrier] {
			return fmt.Errorf("seq is %d, want %d", p.Seq, m.seq[carrier])
		}
		m.seq[carrier]++
	}
	if p.TaskID == "" {
		return nil
	}
	task := m.tasks[p.TaskID]
	if task == nil || task.stateless == inSession {
		return errors.New("it is about a task of the other era, or of nobody")
	}
	if p.Status != "" {
		task.status = p.Status
		if task.status != "working" {
			close(task.ended)
		}
	}
	return nil
}
