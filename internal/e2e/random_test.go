package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestRandomSessions plays so many sessions, from this seed on. make fuzz plays 10,000.
const (
	randomRunsVariable = "RUNNEL_TEST_RUNS"
	randomRuns         = 200
	randomSeedVariable = "RUNNEL_TEST_SEED"
)

// A seq or seqNr is never burnt, repeated or out of place: whatever the tools do, in whatever dialect, while
// the client stalls, cancels, polls, resumes and lets tasks expire, several at once. The audit of the session
// checks the order of
// every line; here every request gets its one answer, every task its end, and what came is what the tools
// wrote.
func TestRandomSessions(t *testing.T) {
	number := func(variable string, otherwise int) int {
		value := os.Getenv(variable)
		if value == "" {
			return otherwise
		}
		n, err := strconv.Atoi(value)
		if err != nil {
			t.Fatalf("%s: %v", variable, err)
		}
		return n
	}
	runs, first := number(randomRunsVariable, randomRuns), number(randomSeedVariable, 0)
	shards := runtime.GOMAXPROCS(0)
	for shard := range shards {
		t.Run(strconv.Itoa(shard), func(t *testing.T) {
			t.Parallel()
			for seed := first + shard; seed < first+runs && !t.Failed(); seed += shards {
				t.Run("seed", func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { playRandom(t, uint64(seed)) })
				})
				if t.Failed() {
					t.Fatalf("%s=%d %s=1", randomSeedVariable, seed, randomRunsVariable)
				}
			}
		})
	}
}

// randomClient is a client that does what it likes.
type randomClient struct {
	t   *testing.T
	rng *rand.Rand
	s   *session

	version string
	tasks   bool // the version has them
	partial bool // takes SEP-2679
	pushed  bool // takes several responses
	asks    bool // can ask its user

	last      int // request id
	calls     []*randomCall
	byID      map[string]*randomCall
	byTask    map[string]*randomCall
	byToken   map[string]*randomCall
	answers   map[string]func(m *wireMessage) error // to requests that are no calls
	questions map[string]*randomCall                // open ones, by the server's id
	reads     bool
}

// wireMessage is any line of the server, as far as the client looks at it.
type wireMessage struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		TaskID        string     `json:"taskId"`
		Status        string     `json:"status"`
		StatusMessage string     `json:"statusMessage"`
		Token         string     `json:"progressToken"`
		Content       []wireItem `json:"content"`
		Partial       *struct {
			Chunk struct {
				Content []wireItem `json:"content"`
			} `json:"chunk"`
		} `json:"partialResult"`
		Message   string          `json:"message"`
		RequestID json.RawMessage `json:"requestId"`
	} `json:"params"`
	Result *struct {
		Task       *shownTask `json:"task"`
		Content    []wireItem `json:"content"`
		Segments   []wireItem `json:"partial-content"`
		IsError    bool       `json:"isError"`
		IsComplete *bool      `json:"isComplete"`
		Meta       struct {
			Task struct { // if the call was handed over, and with get_task_result
				TaskID string `json:"taskId"`
				Status string `json:"status"`
				Next   int64  `json:"next"`
			} `json:"runnel/task"`
		} `json:"_meta"`
	} `json:"result"`
	Error *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

const (
	// randomSteps is how many things a client does, give or take.
	randomSteps = 40
	// randomLimit is how long a session may take to come to its end, in virtual time.
	randomLimit = 10 * time.Minute
)

func playRandom(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	pick := func(values ...string) string { return values[rng.IntN(len(values))] }
	config := fmt.Sprintf("fallbackTools: always\npartials: {pace: %s, %s}\ntasks: {syncWait: %s, immediateWait: %s, heartbeat: %s}",
		pick("0s", "5ms", "50ms"), pick("maxBytes: 1KiB, maxPending: 1KiB",
			"maxBytes: 4KiB, maxPending: 64KiB", "maxBytes: 64KiB, maxPending: 1MiB"),
		pick("0s", "300ms", "50s"), pick("0s", "20ms", "100ms"), pick("200ms", "10s"))
	c := &randomClient{
		t: t, rng: rng, s: inProcess(t, append(writeConfig(t, config), "--selftest")...),
		version: pick("2025-11-25", "2025-11-25", "2025-11-25", "2025-06-18"),
		partial: rng.IntN(2) == 0, pushed: rng.IntN(2) == 0, asks: rng.IntN(2) == 0,
		byID: map[string]*randomCall{}, byTask: map[string]*randomCall{}, byToken: map[string]*randomCall{},
		answers: map[string]func(*wireMessage) error{}, questions: map[string]*randomCall{}, reads: true,
	}
	c.tasks = c.version == newestHandshake
	c.open()
	quick := rng.IntN(3) == 0
	for range rng.IntN(2 * randomSteps) {
		c.step(quick)
	}
	c.stop()
	c.fetch()
	for _, call := range c.calls {
		if err := call.check(c.partial, c.pushed); err != nil {
			t.Errorf("%s %s (task %t, modes %v, token %q, partials %t): %v", call.tool, call.arguments,
				call.task, call.modes, call.token, call.partials, err)
		}
	}
	rest, code, err := c.s.finish()
	if err != nil || code != 0 || len(rest) > 0 {
		t.Errorf("at the end: %d lines, exit code %d, %v", len(rest), code, err)
	}
	if n, id := c.s.audit.unanswered(); n > 0 {
		t.Errorf("%d requests were not answered (one has id %s)", n, id)
	}
	if t.Failed() {
		t.Logf("version %s, partial %t, pushed %t, asks %t, config:\n%s\nstderr:\n%s", c.version, c.partial,
			c.pushed, c.asks, config, c.s.stderr)
	}
}

func (c *randomClient) open() {
	var capabilities []string
	if c.asks {
		capabilities = append(capabilities, `"elicitation":{}`)
	}
	var tasks []string
	if c.partial {
		tasks = append(tasks, `"streaming":{"partial":{}}`)
	}
	if c.pushed {
		tasks = append(tasks, `"responses":{"modes":["streaming"]}`)
	}
	capabilities = append(capabilities, `"tasks":{`+strings.Join(tasks, ",")+`}`)
	c.s.sendLine(`{"jsonrpc":"2.0","id":"open","method":"initialize","params":{"protocolVersion":"%s","capabilities":{%s},"clientInfo":{"name":"test","version":"1"}}}`,
		c.version, strings.Join(capabilities, ","))
	c.s.line()
	c.s.sendLine(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// step does one thing and lets some time pass.
func (c *randomClient) step(quick bool) {
	switch c.rng.IntN(12) {
	case 0, 1, 2:
		if len(c.calls) < 8 {
			c.call(quick)
		}
	case 3:
		if c.reads { // a stall in a stall would lose the gate
			c.s.stall()
			c.reads = false
		}
	case 4:
		c.s.resume()
		c.reads = true
	case 5:
		c.answer()
	case 6:
		if call := c.some(func(call *randomCall) bool { return call.taskID != "" }); call != nil {
			c.request("tasks/get", fmt.Sprintf(`{"taskId":%q}`, call.taskID), nil)
		}
	case 7:
		call := c.some(func(call *randomCall) bool { return call.taskID != "" })
		if call != nil && (!c.reads || c.rng.IntN(3) == 0) {
			c.request("tasks/cancel", fmt.Sprintf(`{"taskId":%q}`, call.taskID), nil)
			c.s.resume() // output that waited for the client goes on as the task ends
			c.reads = true
		}
	case 8:
		if call := c.some(func(call *randomCall) bool { return !call.answered }); call != nil &&
			c.rng.IntN(3) == 0 {
			call.cancelled = true
			c.s.sendLine(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%q}}`,
				call.id)
		}
	case 9:
		if call := c.some(func(call *randomCall) bool {
			return call.taskID != "" &&
				call.next < 0
		}); call != nil {
			c.result(call)
		}
	default:
		if call := c.some(func(call *randomCall) bool {
			return call.taskID != "" &&
				call.streams()
		}); call != nil {
			c.pull(call, 1+c.rng.Int64N(call.highest+3))
		}
	}
	if c.rng.IntN(3) > 0 { // else the next thing is done at the same time
		c.pass(time.Duration(c.rng.IntN(1<<c.rng.IntN(10))) * time.Millisecond)
	}
}

// pass lets time pass and takes what comes.
func (c *randomClient) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
	for {
		line, err := c.s.next(0)
		if err == errNothing {
			return
		}
		if err != nil {
			c.t.Fatalf("%v\nstderr:\n%s", err, c.s.stderr)
		}
		var m wireMessage
		if err := json.Unmarshal(line, &m); err != nil {
			c.t.Fatal(err)
		}
		if err := c.take(&m); err != nil {
			c.t.Fatalf("%s\n    %v", clipLine(line), err)
		}
	}
}

// some is one of the calls of a kind, nil if there is none.
func (c *randomClient) some(kind func(*randomCall) bool) *randomCall {
	var some []*randomCall
	for _, call := range c.calls {
		if kind(call) {
			some = append(some, call)
		}
	}
	if len(some) == 0 {
		return nil
	}
	return some[c.rng.IntN(len(some))]
}

func (c *randomClient) id() string {
	c.last++
	return fmt.Sprintf("id %d", c.last)
}

// request sends a request that is no call. answer may be nil.
func (c *randomClient) request(method, params string, answer func(*wireMessage) error) {
	id := c.id()
	if answer == nil {
		answer = func(*wireMessage) error { return nil }
	}
	c.answers[id] = answer
	c.s.sendLine(`{"jsonrpc":"2.0","id":%q,"method":%q,"params":%s}`, id, method, params)
}

func (c *randomClient) call(quick bool) {
	call := newRandomCall(c.rng, c.id(), c.tasks, quick)
	params := map[string]any{"name": call.tool, "arguments": json.RawMessage(call.arguments)}
	meta := map[string]any{}
	if call.token != "" {
		meta["progressToken"], meta["partialResults"] = call.token, call.partials
		params["_meta"] = meta
		c.byToken[call.token] = call
	}
	if call.task {
		task := map[string]any{}
		if call.ttl {
			task["ttl"] = 1000
		}
		if call.modes != nil {
			task["responseModes"] = call.modes
		}
		params["task"] = task
	}
	encoded, err := json.Marshal(params)
	if err != nil {
		c.t.Fatal(err)
	}
	c.calls = append(c.calls, call)
	c.byID[call.id] = call
	session := ""
	if c.rng.IntN(4) == 0 {
		session = `,"sessionId":"s"`
	}
	c.s.sendLine(`{"jsonrpc":"2.0","id":%q%s,"method":"tools/call","params":%s}`, call.id, session, encoded)
}

// answer answers one of the server's questions, or refuses to.
func (c *randomClient) answer() {
	for id, call := range c.questions { // one of them
		delete(c.questions, id)
		c.s.audit.crosses(id)
		switch c.rng.IntN(4) {
		case 0:
			call.rest, call.fails = "declined", false
			c.s.sendLine(`{"jsonrpc":"2.0","id":%s,"result":{"action":"decline"}}`, id)
		case 1:
			call.rest, call.fails = "cancelled", false
			c.s.sendLine(`{"jsonrpc":"2.0","id":%s,"result":{"action":"cancel"}}`, id)
		case 2:
			call.rest, call.fails = "the client could not ask its user: no user", true
			c.s.sendLine(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"no user"}}`, id)
		default:
			call.rest, call.fails = "accepted: yes", false
			c.s.sendLine(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"answer":"yes"}}}`,
				id)
		}
		return
	}
}

// take looks at a line of the server, which the audit has let through.
func (c *randomClient) take(m *wireMessage) error {
	switch m.Method {
	case "":
		return c.takeAnswer(m)
	case partialMethod:
		return c.carried(c.byTask[m.Params.TaskID], m.Params.Content)
	case "notifications/progress":
		if m.Params.Partial != nil {
			return c.carried(c.byToken[m.Params.Token], m.Params.Partial.Chunk.Content)
		}
	case "notifications/tasks/status":
		call := c.byTask[m.Params.TaskID]
		if call == nil {
			return fmt.Errorf("a status of nobody's task")
		}
		if (&shownTask{Status: m.Params.Status}).terminal() {
			call.status, call.message = m.Params.Status, m.Params.StatusMessage
		}
	case "elicitation/create":
		call := c.byID[m.Params.Message]
		if call == nil || !c.asks {
			return fmt.Errorf("a question that nobody asks")
		}
		c.questions[string(m.ID)] = call
	case "notifications/cancelled":
		delete(c.questions, string(m.Params.RequestID))
	default:
		return fmt.Errorf("what is this?")
	}
	return nil
}

func (c *randomClient) carried(call *randomCall, items []wireItem) error {
	if call == nil {
		return fmt.Errorf("output of nobody's call")
	}
	call.text.WriteString(textOf(items))
	call.gotImages += imagesIn(items)
	return nil
}

func (c *randomClient) takeAnswer(m *wireMessage) error {
	var id string
	if err := json.Unmarshal(m.ID, &id); err != nil {
		return err
	}
	if answer := c.answers[id]; answer != nil {
		delete(c.answers, id)
		return answer(m)
	}
	call := c.byID[id]
	if call == nil {
		return fmt.Errorf("an answer to nothing")
	}
	again := call.answered
	call.answered = true
	switch {
	case m.Error != nil:
		if again || !call.protocol || !strings.HasSuffix(m.Error.Message, call.rest) {
			return fmt.Errorf("error for %s %s", call.tool, call.arguments)
		}
		call.immediate = call.task
		return nil
	case m.Result.Task != nil || again:
		if m.Result.Task != nil {
			call.taskID = m.Result.Task.TaskID
			c.byTask[call.taskID] = call
		}
		return call.page(m)
	case m.Result.Meta.Task.TaskID != "":
		return c.handedOver(call, m)
	}
	call.immediate = call.task
	if call.partials && !call.immediate {
		return nil // its content has come; the audit checks that it does not come again
	}
	return call.checkResult(m.Result.Content, m.Result.IsError)
}

// checkResult checks the whole result of a call.
func (c *randomCall) checkResult(content []wireItem, isError bool) error {
	if text := textOf(content); text != c.rest || imagesIn(content) != c.images || isError != c.fails {
		return fmt.Errorf("result of %s %s says %.200q, isError %t, want %q, %t", c.tool, c.arguments, text,
			isError, c.rest, c.fails)
	}
	return nil
}

// page notes the segments of a response.
func (c *randomCall) page(m *wireMessage) error {
	for _, item := range m.Result.Segments {
		c.segments[item.SeqNr] = item
		c.highest = max(c.highest, item.SeqNr)
	}
	if m.Result.IsComplete == nil || !*m.Result.IsComplete {
		return nil
	}
	c.complete = true
	if len(m.Result.Content) > 0 { // all of a task that failed without output
		if textOf(m.Result.Content) != c.rest {
			return fmt.Errorf("a stream that fails says %q, want %q", textOf(m.Result.Content), c.rest)
		}
		c.segments[1], c.highest = wireItem{1, "text", textOf(m.Result.Content)}, 1
	}
	return nil
}

// pull asks for the segments after a number.
func (c *randomClient) pull(call *randomCall, last int64) {
	c.request("tasks/result", fmt.Sprintf(`{"taskId":%q,"lastSeqNr":%d}`, call.taskID,
		last), func(m *wireMessage) error {
		if m.Error != nil {
			return call.gone(m)
		}
		before := call.complete
		err := call.page(m)
		if last > call.highest {
			call.complete = before // told of what lies behind a segment that was not seen or does not exist
		}
		return err
	})
}

// gone accepts that a task is unknown if its ttl may be over.
func (c *randomCall) gone(m *wireMessage) error {
	if m.Error.Code == -32602 && c.ttl {
		return nil
	}
	return fmt.Errorf("error for task %s of %s", c.taskID, c.tool)
}

// result asks for the whole result of a task.
func (c *randomClient) result(call *randomCall) {
	c.request("tasks/result", fmt.Sprintf(`{"taskId":%q}`, call.taskID), func(m *wireMessage) error {
		switch {
		case m.Error != nil && call.protocol && m.Error.Message == call.rest:
			return nil
		case m.Error != nil:
			return call.gone(m)
		case call.stopped() || call.status == "":
			return nil // the status comes after the answer of those that end by force
		case call.streams():
			if err := checkOutput(textOf(m.Result.Content), call.chunks, call.size, call.rest); err != nil {
				return fmt.Errorf("merged: %w", err)
			}
			return checkImages(imagesIn(m.Result.Content), call.images)
		}
		return call.checkResult(m.Result.Content, m.Result.IsError)
	})
}

// handedOver goes on with a plain call that took too long.
func (c *randomClient) handedOver(call *randomCall, m *wireMessage) error {
	call.taskID, call.next = m.Result.Meta.Task.TaskID, m.Result.Meta.Task.Next
	c.byTask[call.taskID] = call
	call.text.WriteString(textOf(m.Result.Content[1:]))
	c.follow(call)
	return nil
}

// follow reads on where the call was handed over.
func (c *randomClient) follow(call *randomCall) {
	params := fmt.Sprintf(`{"name":"get_task_result","arguments":{"task_id":%q,"wait_ms":%d}}`, call.taskID,
		c.rng.IntN(2000))
	c.request("tools/call", params, func(m *wireMessage) error {
		if m.Error != nil {
			return fmt.Errorf("get_task_result of %s fails", call.tool)
		}
		task, text := m.Result.Meta.Task, m.Result.Content[0].Text
		last := strings.LastIndexByte(text, '[')
		if last < 0 || !strings.HasSuffix(text, "]") || task.Next < call.next {
			return fmt.Errorf("get_task_result says nothing of the status, or goes back behind %d", call.next)
		}
		call.text.WriteString(text[:last])
		call.next = task.Next
		if task.Status == "working" || task.Status == "input_required" {
			c.follow(call)
			return nil
		}
		if call.status = task.Status; call.stopped() {
			return nil
		}
		if m.Result.IsError != (call.fails || call.protocol) {
			return fmt.Errorf("%s %s ends with isError %t", call.tool, call.arguments, m.Result.IsError)
		}
		if err := checkImages(imagesIn(m.Result.Content[1:]), call.images); err != nil {
			return err
		}
		all := call.text.String()
		if strings.Contains(all, " bytes left out") {
			return nil
		}
		rest := call.rest
		if rest != "" {
			rest += "\n"
		}
		return checkOutput(strings.ReplaceAll(all, "[image]\n", ""), call.chunks, call.size, rest)
	})
}

// stop lets all that runs come to its end.
func (c *randomClient) stop() {
	c.s.resume()
	began := time.Now()
	for d := time.Millisecond; ; d = min(2*d, time.Second) {
		for len(c.questions) > 0 {
			c.answer()
		}
		c.pass(d)
		if len(c.answers) == 0 && !slices.ContainsFunc(c.calls,
			func(call *randomCall) bool { return !call.ended() }) {
			return
		}
		if time.Since(began) > randomLimit {
			for _, call := range c.calls {
				if !call.ended() {
					c.t.Errorf("%s %s has no end: task %q, answered %t, status %q", call.tool, call.arguments,
						call.taskID, call.answered, call.status)
				}
			}
			c.t.Fatalf("%d requests have no answer\nstderr:\n%s", len(c.answers), c.s.stderr)
		}
	}
}

// fetch asks every task for its whole result, and every stream for what was not seen of it.
func (c *randomClient) fetch() {
	for _, call := range c.calls {
		if call.taskID == "" || call.next >= 0 {
			continue
		}
		c.result(call)
		// Nothing is missed of a stream whose first segment was seen: lastSeqNr is 1 or more.
		for call.streams() && call.status != "" && call.seen() > 0 && !call.whole() {
			before := call.seen()
			c.pull(call, before)
			c.stop()
			if call.seen() == before && !call.whole() {
				if !call.ttl {
					c.t.Errorf("nothing behind segment %d, and no end", before)
				}
				break
			}
		}
	}
	c.stop()
}
