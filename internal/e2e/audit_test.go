package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
	"unicode/utf8"
)

// maxOutgoing bounds a line that the server writes (WIRE "Framing": clients and routers read with limits of 1
// MiB).
const maxOutgoing = 1 << 20

// audit watches both directions of one session, whatever the test is about, and holds every outgoing
// line against what must hold always: the schema of the negotiated version, an answer for a request
// and for nothing else, sessionId, and the order of a task's life (handle, partials from seq 0 without
// a gap, terminal status, nothing).
type audit struct {
	t testing.TB

	mu         sync.Mutex
	now        time.Time             // when the line came that is looked at
	piece      []byte                // sent of a line that has no newline yet
	inputEnded bool                  // the client has closed stdin: it can answer nothing any more
	version    string                // as answered to initialize; the newest handshake version before that
	streams    bool                  // the client declared tasks.streaming.partial
	pushes     bool                  // the client declared the response mode streaming
	requests   map[string][]*request // not answered yet, by the id's bytes
	tasks      map[string]*auditTask
	tokens     map[string]*auditToken // by the token's bytes
	pushed     map[string]*auditTask  // streams, by the bytes of their call's id

	opened    bool // by initialize
	stateless statelessAudit

	asked     map[string]string // open requests of the server: the task that asks, by the id's bytes
	crossed   map[string]bool   // answered when a cancellation may have been on its way
	lastAsked int
}

// request is one that the client sent.
type request struct {
	method    string
	task      bool   // params.task is there
	session   string // bytes of the top-level sessionId, "" for none
	token     string
	taskID    string   // params.taskId
	modes     []string // params.task.responseModes
	lastSeqNr json.RawMessage
	cancelled bool // by notifications/cancelled: need not be answered
	stateless *statelessRequest
}

type auditTask struct {
	session  string
	token    string
	seq      int64 // the next partial's
	ended    bool  // a message showed a terminal status
	notified bool  // by notifications/tasks/status

	carrier string      // the dialect that carried content
	pushed  bool        // further responses to the call may come
	pulls   bool        // the client has asked for segments
	merged  bool        // the request listed the response mode streaming: the result is the merged segments
	stream  auditStream // SEP-1905
	shown   time.Time   // when a status notification last showed a line of output
}

type auditToken struct {
	session  string
	progress float64
	any      bool
	ended    bool

	partials bool // the request asked for partial results
	chunks   int
	last     bool // lastChunk: true has come
}

func newAudit(t testing.TB) *audit {
	return &audit{t: t, version: newestHandshake, requests: map[string][]*request{},
		tasks: map[string]*auditTask{}, tokens: map[string]*auditToken{},
		pushed: map[string]*auditTask{}, asked: map[string]string{}, crossed: map[string]bool{},
		stateless: newStatelessAudit()}
}

type envelope struct {
	ID      json.RawMessage `json:"id"`
	Method  json.RawMessage `json:"method"`
	Session json.RawMessage `json:"sessionId"`
	Params  json.RawMessage `json:"params"`
	Result  json.RawMessage `json:"result"`
	Error   json.RawMessage `json:"error"`
}

// method is the method's name, "" if there is none.
func (e *envelope) method() (name string) {
	_ = json.Unmarshal(e.Method, &name)
	return name
}

// sent notes what the client sends, also when it is nonsense. A line may come in pieces.
func (a *audit) sent(b []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.piece = append(a.piece, b...)
	for {
		line, rest, ok := bytes.Cut(a.piece, []byte("\n"))
		if !ok {
			return
		}
		a.sentLine(line)
		a.piece = rest
	}
}

// closed notes that the client closes stdin: what has no newline yet is a line too.
func (a *audit) closed() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sentLine(a.piece)
	a.piece = nil
	a.inputEnded = true
}

func (a *audit) sentLine(line []byte) {
	line = bytes.TrimPrefix(line, []byte("\ufeff"))
	if !utf8.Valid(line) {
		return
	}
	var batch []json.RawMessage
	if json.Unmarshal(line, &batch) != nil {
		batch = []json.RawMessage{line}
	}
	for _, m := range batch {
		a.sentOne(m)
	}
}

func (a *audit) sentOne(line []byte) {
	var e envelope
	if json.Unmarshal(line, &e) != nil {
		return
	}
	if e.Result != nil || e.Error != nil {
		delete(a.asked, string(e.ID))
		return
	}
	if e.method() == "notifications/cancelled" {
		var p struct {
			RequestID json.RawMessage `json:"requestId"`
		}
		_ = json.Unmarshal(e.Params, &p)
		for _, r := range a.requests[string(p.RequestID)] {
			r.cancelled = true
		}
	}
	if !usableID(e.ID) {
		return
	}
	r := &request{method: e.method(), session: string(e.Session)}
	var p struct {
		Task      json.RawMessage `json:"task"`
		TaskID    string          `json:"taskId"`
		LastSeqNr json.RawMessage `json:"lastSeqNr"`
		Meta      struct {
			Token    json.RawMessage `json:"progressToken"`
			Partials json.RawMessage `json:"partialResults"`
		} `json:"_meta"`
		Capabilities struct {
			Tasks struct {
				Streaming struct {
					Partial *struct{} `json:"partial"`
				} `json:"streaming"`
				Responses struct {
					Modes []string `json:"modes"`
				} `json:"responses"`
			} `json:"tasks"`
		} `json:"capabilities"`
	}
	_ = json.Unmarshal(e.Params, &p)
	r.task = p.Task != nil
	r.taskID = p.TaskID
	r.token = string(p.Meta.Token)
	var task struct {
		Modes []string `json:"responseModes"`
	}
	_ = json.Unmarshal(p.Task, &task)
	r.modes, r.lastSeqNr = task.Modes, p.LastSeqNr
	if r.token != "" {
		a.tokens[r.token] = &auditToken{session: r.session, partials: string(p.Meta.Partials) == "true"}
	}
	a.sentStateless(r, e.ID, e.Params)
	if r.method == "initialize" {
		a.streams = a.streams || p.Capabilities.Tasks.Streaming.Partial != nil
		a.pushes = a.pushes || slices.Contains(p.Capabilities.Tasks.Responses.Modes, "streaming")
	}
	if r.method == "tasks/result" {
		a.stateless.awaited[r.taskID] = true
	}
	if task := a.tasks[r.taskID]; task != nil && r.method == "tasks/result" && p.LastSeqNr != nil {
		task.pulls = true
	}
	a.requests[string(e.ID)] = append(a.requests[string(e.ID)], r)
}

// merges reports whether a line is the merged result of a SEP-1905 stream.
func (a *audit) merges(line []byte) bool {
	var e envelope
	if json.Unmarshal(line, &e) != nil || len(a.requests[string(e.ID)]) == 0 {
		return false
	}
	r := a.requests[string(e.ID)][0]
	task := a.tasks[r.taskID]
	return r.method == "tasks/result" && r.lastSeqNr == nil && task != nil && task.merged
}

// usableID reports whether the raw id is a string or an integer.
func usableID(id json.RawMessage) bool {
	return len(id) > 0 && (id[0] == '"' || !bytes.ContainsAny(id, ".eEntf{["))
}

// received checks a line of the server, which comes without its newline. at is when it came, zero if that is
// not known exactly.
func (a *audit) received(line []byte, at time.Time) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now = at
	if len(line) >= maxOutgoing && (len(line) >= maxMergedLine || !a.merges(line)) {
		return fmt.Errorf("line of %d bytes", len(line))
	}
	if !utf8.Valid(line) || bytes.HasSuffix(line, []byte("\r")) {
		return errors.New("line is not UTF-8 that ends in a bare newline")
	}
	message, err := decodeUnique(line)
	if err != nil {
		return err
	}
	messages, isBatch := message.([]any)
	if !isBatch {
		return a.receivedOne(line, message)
	}
	var batch []json.RawMessage
	if err := json.Unmarshal(line, &batch); err != nil {
		return err
	}
	if a.version != "2025-03-26" || len(batch) == 0 {
		return fmt.Errorf("batch of %d in a session of %s", len(batch), a.version)
	}
	for i, m := range batch {
		if err := a.receivedOne(m, messages[i]); err != nil {
			return err
		}
	}
	return nil
}

// receivedOne checks a message, of which line is the text.
func (a *audit) receivedOne(line []byte, message any) error {
	object, ok := message.(map[string]any)
	if !ok || object["jsonrpc"] != "2.0" {
		return errors.New("no JSON-RPC 2.0 message")
	}
	for name := range object {
		switch name {
		case "jsonrpc", "id", "method", "params", "result", "error", "sessionId":
		default:
			return fmt.Errorf("unknown top-level member %q", name)
		}
	}
	delete(object, "sessionId") // for a router; no schema has it
	var e envelope
	if err := json.Unmarshal(line, &e); err != nil {
		return err
	}
	s := schemaOf(a.t, a.version)
	switch {
	case e.Method != nil && e.ID == nil:
		return a.notification(s, e, object)
	case e.Method != nil:
		typ := s.requests[e.method()]
		if typ == "" {
			return fmt.Errorf("%s has no request %s from a server", a.version, e.method())
		}
		if err := a.eraOfQuestion(e); err != nil {
			return err
		}
		if err := s.check(typ, object); err != nil {
			return err
		}
		return a.asks(e)
	default:
		return a.response(s, e, object)
	}
}

func (a *audit) response(s *schema, e envelope, object map[string]any) error {
	if (e.Result == nil) == (e.Error == nil) {
		return errors.New("a response has a result or an error")
	}
	if e.ID == nil {
		if e.Error == nil {
			return errors.New("result without an id")
		}
		newest := schemaOf(a.t, newestHandshake)
		return newest.check(newest.errorType(), object)
	}
	waiting := a.requests[string(e.ID)]
	if task := a.pushed[string(e.ID)]; task != nil && len(waiting) == 0 && e.Result != nil {
		return a.furtherResponse(s, task, e, object)
	}
	if len(waiting) == 0 {
		return fmt.Errorf("answer to id %s, which no request that waits has", e.ID)
	}
	// If two requests have the same id, the second is the one that is refused. A cancelled request is not
	// answered.
	i := 0
	if e.Error != nil {
		i = len(waiting) - 1
	}
	for i+1 < len(waiting) && waiting[i].cancelled {
		i++
	}
	r := waiting[i]
	if waiting = append(waiting[:i:i], waiting[i+1:]...); len(waiting) == 0 {
		delete(a.requests, string(e.ID))
	} else {
		a.requests[string(e.ID)] = waiting
	}
	if r.session != string(e.Session) {
		return fmt.Errorf("sessionId %q for a request with %q", e.Session, r.session)
	}
	if r.stateless != nil {
		a.endToken(r.token)
		if e.Result != nil {
			if err := a.tokens[r.token].answered(e.Result); err != nil {
				return err
			}
		}
		return a.statelessResult(r, e, object)
	}
	if e.Error != nil {
		a.endToken(r.token)
		return s.check(s.errorType(), object)
	}
	if r.method == "initialize" {
		var result struct {
			ProtocolVersion string `json:"protocolVersion"`
		}
		_ = json.Unmarshal(e.Result, &result)
		a.version, a.opened = result.ProtocolVersion, true
		s = schemaOf(a.t, a.version)
	}
	typ := resultTypes[r.method]
	if typ == "" {
		return fmt.Errorf("result for %s, which is no method of these tests", r.method)
	}
	if r.method == "tools/call" && r.task && a.version == newestHandshake {
		return a.augmentedResult(s, r, e.ID, e.Result, object["result"])
	}
	if r.method == "tasks/result" && r.lastSeqNr != nil {
		return a.resumeResult(s, r, e.Result, object["result"])
	}
	a.endToken(r.token)
	if err := a.tokens[r.token].answered(e.Result); err != nil {
		return err
	}
	if err := s.check(typ, object["result"]); err != nil {
		return err
	}
	switch r.method {
	case "tasks/result":
		if task := a.tasks[r.taskID]; task != nil {
			task.ended = true
			if task.merged {
				return task.stream.merged(e.Result)
			}
		}
	case "tasks/get", "tasks/cancel":
		return a.shown(e.Result)
	}
	return nil
}

// endToken: "Progress notifications MUST stop after completion" (basic/utilities/progress).
func (a *audit) endToken(token string) {
	if t := a.tokens[token]; t != nil {
		t.ended = true
	}
}

type shownTask struct {
	TaskID        string `json:"taskId"`
	Status        string `json:"status"`
	StatusMessage string `json:"statusMessage"`
	CreatedAt     string `json:"createdAt"`
	LastUpdatedAt string `json:"lastUpdatedAt"`
}

func (t *shownTask) check() error {
	for _, at := range []string{t.CreatedAt, t.LastUpdatedAt} {
		if _, err := time.Parse(time.RFC3339Nano, at); err != nil {
			return err
		}
	}
	if n := len(t.StatusMessage); n > 2<<10 {
		return fmt.Errorf("statusMessage of %d bytes", n)
	}
	return nil
}

func (t *shownTask) terminal() bool {
	return t.Status == "completed" || t.Status == "failed" || t.Status == "cancelled"
}

func (a *audit) handle(r *request, result json.RawMessage) error {
	var created struct {
		Task shownTask `json:"task"`
	}
	if err := json.Unmarshal(result, &created); err != nil {
		return err
	}
	if a.tasks[created.Task.TaskID] != nil {
		return fmt.Errorf("second handle of task %s", created.Task.TaskID)
	}
	if created.Task.Status != "working" {
		return fmt.Errorf("task begins as %q: tasks begin in the working status", created.Task.Status)
	}
	a.tasks[created.Task.TaskID] = &auditTask{session: r.session, token: r.token,
		merged: slices.Contains(r.modes, "streaming")}
	return created.Task.check()
}

// shown notes the status that an answer shows.
func (a *audit) shown(task json.RawMessage) error {
	var shown shownTask
	if err := json.Unmarshal(task, &shown); err != nil {
		return err
	}
	if known := a.tasks[shown.TaskID]; known != nil {
		if known.ended && !shown.terminal() {
			return fmt.Errorf("status %q of a task that has ended", shown.Status)
		}
		known.ended = known.ended || shown.terminal()
	}
	return shown.check()
}

func (a *audit) notification(s *schema, e envelope, object map[string]any) error {
	if ok, err := a.statelessNotification(e, object); ok {
		return err
	}
	typ := s.notifications[e.method()]
	if typ == "" {
		return fmt.Errorf("%s has no notification %s from a server", a.version, e.method())
	}
	if err := s.check(typ, object); err != nil {
		return err
	}
	switch e.method() {
	case partialMethod:
		return a.partial(e)
	case "notifications/tasks/status":
		return a.status(e)
	case "notifications/progress":
		return a.progress(e)
	case "notifications/cancelled":
		return a.withdrawn(e)
	}
	return nil
}

func (a *audit) partial(e envelope) error {
	var p struct {
		TaskID string `json:"taskId"`
		Seq    int64  `json:"seq"`
	}
	if err := json.Unmarshal(e.Params, &p); err != nil {
		return err
	}
	task := a.tasks[p.TaskID]
	switch {
	case !a.streams:
		return errors.New("partial for a client that did not declare tasks.streaming.partial (SEP-2679 2.3.1)")
	case task == nil:
		return fmt.Errorf("partial of task %s before its handle", p.TaskID)
	case task.ended:
		return errors.New("partial after the terminal status (SEP-2679 1.3.2)")
	case p.Seq != task.seq:
		return fmt.Errorf("seq %d where %d is next (SEP-2679 1.3.4)", p.Seq, task.seq)
	case task.session != string(e.Session):
		return fmt.Errorf("sessionId %q of a task with %q", e.Session, task.session)
	}
	task.seq++
	return task.carries("notifications/tasks/partial", 1)
}

func (a *audit) status(e envelope) error {
	var shown shownTask
	if err := json.Unmarshal(e.Params, &shown); err != nil {
		return err
	}
	task := a.tasks[shown.TaskID]
	switch {
	case task == nil:
		return fmt.Errorf("status of task %s before its handle", shown.TaskID)
	case task.notified:
		return fmt.Errorf("status %q after the terminal status", shown.Status)
	case task.ended && !shown.terminal():
		return fmt.Errorf("status %q of a task that has ended", shown.Status)
	case task.session != string(e.Session):
		return fmt.Errorf("sessionId %q of a task with %q", e.Session, task.session)
	}
	if err := task.throttled(&shown, a.now); err != nil {
		return err
	}
	if shown.terminal() {
		if err := errors.Join(task.ends(&shown), a.noQuestion(shown.TaskID)); err != nil {
			return err
		}
		task.ended, task.notified = true, true
		a.endToken(task.token)
	}
	return shown.check()
}

func (a *audit) progress(e envelope) error {
	var p struct {
		Token    json.RawMessage `json:"progressToken"`
		Progress float64         `json:"progress"`
	}
	if err := json.Unmarshal(e.Params, &p); err != nil {
		return err
	}
	token := a.tokens[string(p.Token)]
	switch {
	case token == nil:
		return fmt.Errorf("progress for token %s, which no request gave", p.Token)
	case token.ended:
		return errors.New("progress after completion")
	case token.any && p.Progress <= token.progress:
		return fmt.Errorf("progress %v after %v: it must increase with each notification", p.Progress,
			token.progress)
	case token.session != string(e.Session):
		return fmt.Errorf("sessionId %q of a call with %q", e.Session, token.session)
	}
	token.any, token.progress = true, p.Progress
	return token.partialResult(e.Params)
}

// unanswered counts the requests without an answer, and names one.
func (a *audit) unanswered() (n int, id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for key, waiting := range a.requests {
		for _, r := range waiting {
			if !r.cancelled {
				n++
				id = key
			}
		}
	}
	return n, id
}

// decodeUnique decodes a line, and refuses an object that has a member twice: what that means depends on its
// reader. A member that is there twice is decoded once, so the line has more colons than members; only then
// is it read token by token, to name the member.
func decodeUnique(line []byte) (any, error) {
	v, err := decodeJSON(line)
	if err == nil && colons(line) != members(v) {
		err = errors.Join(errors.New("a member is there twice"),
			twice(json.NewDecoder(bytes.NewReader(line))))
	}
	return v, err
}

// colons counts those of a JSON text that stand outside its strings.
func colons(text []byte) (n int) {
	for {
		before, rest, quoted := bytes.Cut(text, []byte(`"`))
		n += bytes.Count(before, []byte(":"))
		if !quoted {
			return n
		}
		for {
			quote := bytes.IndexByte(rest, '"')
			escapes := quote - len(bytes.TrimRight(rest[:quote], `\`))
			if rest = rest[quote+1:]; escapes%2 == 0 {
				break
			}
		}
		text = rest
	}
}

// members counts those of all objects in a value.
func members(v any) (n int) {
	switch v := v.(type) {
	case map[string]any:
		n = len(v)
		for _, value := range v {
			n += members(value)
		}
	case []any:
		for _, value := range v {
			n += members(value)
		}
	}
	return n
}

// twice names the first member that an object of a JSON text has twice.
func twice(d *json.Decoder) error {
	token, err := d.Token()
	if token != json.Delim('{') && token != json.Delim('[') {
		return err
	}
	known := map[json.Token]bool{}
	for err == nil && d.More() {
		if token == json.Delim('{') {
			name, _ := d.Token()
			if known[name] {
				return fmt.Errorf("member %q twice", name)
			}
			known[name] = true
		}
		err = twice(d)
	}
	if err == nil {
		_, err = d.Token()
	}
	return err
}
