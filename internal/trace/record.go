package trace

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"runnel/internal/term"
	"runnel/partials/tracker"
	"runnel/rpc/mcp"
)

// maxNoted is the longest line that a record shows; a longer one is noted by its length.
const maxNoted = 1 << 20

type direction uint8

const (
	FromHost direction = iota
	fromServer
)

// Record writes down a session: one message a line,
//
//	TIME ARROW WHAT: REMARKS | MESSAGE
//
// TIME in seconds from the start, --> from the host and <-- from the server. A line that begins with # is not a message.
type Record struct {
	began time.Time

	mu      sync.Mutex
	out     *bufio.Writer
	err     error
	asked   [2]map[string]asked // open requests by their id, of each side
	tracked map[string]*tracked // calls by their task and by their token: see the keys
}

type asked struct {
	method string
	at     time.Time
	tool   string
	call   *tracked // nil: no tools/call
	stream bool     // it may have several responses (SEP-1905)
}

// The keys of record.tracked.
func byTask(id string) string              { return "task " + id }
func byToken(token json.RawMessage) string { return "token " + string(token) }

// tracked is a call whose partials are checked.
type tracked struct {
	*tracker.Tracker
	notes *[]string
}

// New begins a record with a title.
func New(out io.Writer, title string) *Record {
	t := &Record{began: time.Now(), out: bufio.NewWriter(out), asked: [2]map[string]asked{{}, {}}, tracked: map[string]*tracked{}}
	t.event(title + ", " + t.began.Format(time.RFC3339))
	return t
}

// event writes a line that is not a message.
func (t *Record) event(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.print("# %10.6f %s\n", time.Since(t.began).Seconds(), text)
}

// print writes and flushes: somebody may be watching. mu is held.
func (t *Record) print(format string, args ...any) {
	if _, err := fmt.Fprintf(t.out, format, args...); err != nil && t.err == nil {
		t.err = err
	}
	if err := t.out.Flush(); err != nil && t.err == nil {
		t.err = err
	}
}

// Failure says why the record is not complete, nil if it is.
func (t *Record) Failure() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// Lines returns a function that takes the bytes of one direction, in pieces; nil ends them.
func (t *Record) Lines(d direction) func([]byte) {
	var line []byte
	long := 0
	return func(p []byte) {
		if text := bytes.TrimSpace(line); p == nil && len(text) > 0 {
			t.message(d, text, long)
			t.event("the line before it has no end: its reader may not take it for a message")
			return
		}
		for {
			cut := bytes.IndexByte(p, '\n')
			piece := p
			if cut >= 0 {
				piece = p[:cut]
			}
			long += len(piece)
			if len(line) < maxNoted {
				line = append(line, piece...)
			}
			if cut < 0 {
				return
			}
			if text := bytes.TrimSpace(line); len(text) > 0 {
				t.message(d, text, long)
			}
			line, long, p = line[:0], 0, p[cut+1:]
		}
	}
}

// message writes one message with its remarks.
func (t *Record) message(d direction, line []byte, length int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, arrow := time.Since(t.began).Seconds(), [...]string{"-->", "<--"}[d]
	if length > maxNoted {
		t.print("%12.6f %s a line of %d bytes\n", at, arrow, length)
		return
	}
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
		Result json.RawMessage `json:"result"`
		Error  *struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	var what string
	var notes []string
	switch err := json.Unmarshal(line, &m); {
	case err != nil && line[0] == '[' && json.Valid(line):
		what = "a batch"
	case !json.Valid(line):
		what, notes = "NO MESSAGE", []string{err.Error()}
	case m.Method != "" && m.ID != nil:
		what, notes = t.request(d, m.ID, m.Method, m.Params)
	case m.Method != "":
		what, notes = m.Method, t.notification(d, m.Method, m.Params)
	default:
		what, notes = t.response(d, m.ID, m.Result)
		if m.Error != nil {
			notes = append(notes, fmt.Sprintf("error %d, %s", m.Error.Code, m.Error.Message))
		}
	}
	if len(notes) > 0 {
		what += ": " + term.Printable(strings.Join(notes, "; "))
	}
	t.print("%12.6f %s %s | %s\n", at, arrow, what, line)
}

func (t *Record) request(d direction, id json.RawMessage, method string, params []byte) (what string, notes []string) {
	if _, twice := t.asked[d][string(id)]; twice {
		notes = append(notes, "THE ID IS IN FLIGHT")
	}
	a := asked{method: method, at: time.Now()}
	var p struct {
		Name         string                 `json:"name"`
		Version      string                 `json:"protocolVersion"`
		Info         mcp.Implementation     `json:"clientInfo"`
		Capabilities mcp.ClientCapabilities `json:"capabilities"`
		Meta         mcp.RequestMeta        `json:"_meta"`
		Task         mcp.TaskMetadata       `json:"task"`
	}
	_ = json.Unmarshal(params, &p) // members of a wrong type read as absent
	switch method {
	case "initialize":
		notes = append(notes, fmt.Sprintf("%s %s speaks %s; %s", p.Info.Name, p.Info.Version, p.Version, abilities(&p.Capabilities)))
	case "server/discover":
		var c mcp.ClientCapabilities
		var info mcp.Implementation
		_ = json.Unmarshal(p.Meta.ClientCapabilities, &c)
		_ = json.Unmarshal(p.Meta.ClientInfo, &info)
		notes = append(notes, fmt.Sprintf("%s %s speaks %s; %s", info.Name, info.Version, term.Unquoted(p.Meta.ProtocolVersion), abilities(&c)))
	case "tools/call":
		a.tool, a.stream = p.Name, slices.Contains(p.Task.ResponseModes, mcp.ModeStreaming)
		token := p.Meta.ProgressToken
		if token == nil {
			token = p.Meta.PartialResultToken
		}
		a.call = t.track(token)
		notes = append(notes, wishes(params)...)
	}
	if len(t.asked[d]) >= maxTracked { // the other side does not answer
		clear(t.asked[d])
	}
	t.asked[d][string(id)] = a
	return strings.TrimSpace(method + " " + a.tool), notes
}

// maxTracked is how many calls, and how many requests without an answer, are kept: a host that runs for days makes more.
const maxTracked = 10000

func (t *Record) track(token json.RawMessage) *tracked {
	if len(t.tracked) >= maxTracked {
		clear(t.tracked)
	}
	c := &tracked{notes: new([]string)}
	c.Tracker = tracker.New(tracker.Options{
		Token:  bytes.Clone(token),
		Window: 1,
		Gap:    func(g tracker.Gap) { *c.notes = append(*c.notes, g.String()) },
	})
	if token != nil {
		t.tracked[byToken(token)] = c
	}
	return c
}

// response says what a message answers. A request may have several responses (SEP-1905).
func (t *Record) response(d direction, id, result json.RawMessage) (what string, notes []string) {
	a, ok := t.asked[1-d][string(id)]
	if !ok {
		return "a response", []string{"IT ANSWERS NOTHING"}
	}
	notes = append(notes, fmt.Sprintf("after %.3f ms", float64(time.Since(a.at).Microseconds())/1000))
	more := false
	if c := a.call; c != nil && result != nil {
		var r struct {
			IsComplete bool `json:"isComplete"`
		}
		_ = json.Unmarshal(result, &r) // members of a wrong type read as absent
		more = c.Response(result) != tracker.AnswerResult && a.stream && !r.IsComplete
		if id := c.TaskID(); id != "" {
			t.tracked[byTask(id)] = c
			notes = append(notes, "task "+id)
		}
		notes = append(notes, c.take()...)
	}
	if !more {
		delete(t.asked[1-d], string(id))
	}
	return strings.TrimSpace("response to " + a.method + " " + a.tool), notes
}

func (t *Record) notification(d direction, method string, params json.RawMessage) (notes []string) {
	if d != fromServer {
		return nil
	}
	var p struct {
		TaskID string          `json:"taskId"`
		Token  json.RawMessage `json:"progressToken"`
		Result json.RawMessage `json:"partialResultToken"`
		Seq    *int64          `json:"seq"`
		Status mcp.TaskStatus  `json:"status"`
	}
	_ = json.Unmarshal(params, &p) // members of a wrong type read as absent
	if p.Status != "" {
		notes = append(notes, string(p.Status))
	}
	var calls []*tracked
	for _, key := range []string{byTask(p.TaskID), byToken(p.Token), byToken(p.Result)} {
		if c := t.tracked[key]; c != nil {
			calls = []*tracked{c}
		}
	}
	if calls == nil && p.TaskID != "" { // its call may not have been answered yet
		for _, a := range t.asked[FromHost] {
			if a.call != nil {
				calls = append(calls, a.call)
			}
		}
	}
	if p.Seq != nil {
		notes = append(notes, fmt.Sprintf("seq %d", *p.Seq))
	}
	for _, c := range calls {
		before := c.Stats()
		c.Notification(method, params)
		switch after := c.Stats(); {
		case after.Duplicates > before.Duplicates:
			notes = append(notes, "REPEATED")
		case after.Late > before.Late:
			notes = append(notes, "TOO LATE")
		case after.Malformed > before.Malformed:
			notes = append(notes, "MALFORMED")
		}
		notes = append(notes, c.take()...)
	}
	if method == "notifications/tasks/partial" && calls == nil {
		notes = append(notes, "OF NO CALL SEEN HERE")
	}
	return notes
}

// take returns the gaps seen since it was called last.
func (c *tracked) take() (notes []string) {
	for _, g := range *c.notes {
		notes = append(notes, strings.ToUpper(g[:3])+g[3:])
	}
	*c.notes = nil
	return notes
}

// wishes says how a host asks for a call to be made.
func wishes(params []byte) (asks []string) {
	var p struct {
		Task json.RawMessage `json:"task"`
		Meta struct {
			Progress json.RawMessage `json:"progressToken"`
			Partials bool            `json:"partialResults"`
			Token    json.RawMessage `json:"partialResultToken"`
		} `json:"_meta"`
	}
	_ = json.Unmarshal(params, &p) // members of a wrong type read as absent
	for _, a := range []struct {
		asks bool
		what string
	}{
		{p.Task != nil, "as a task"},
		{p.Meta.Progress != nil, "with progress"},
		{p.Meta.Partials || p.Meta.Token != nil, "with partial results"},
	} {
		if a.asks {
			asks = append(asks, a.what)
		}
	}
	return asks
}

// abilities says what a host can do with a server like this one.
func abilities(c *mcp.ClientCapabilities) string {
	var can []string
	for _, a := range []struct {
		has  bool
		name string
	}{
		{c.Tasks != nil, "tasks of 2025-11-25"},
		{c.Extends(mcp.ExtensionTasks), "tasks (extension)"},
		{c.StreamsPartials(), "partials (SEP-2679)"},
		{c.StreamsResponses(), "streaming responses (SEP-1905)"},
		{c.PartialResults != nil, "partial results (SEP-2998)"},
		{c.AsksByForm(), "questions by form"},
	} {
		if a.has {
			can = append(can, a.name)
		}
	}
	if len(can) == 0 {
		return "it can do neither tasks nor partials nor questions"
	}
	return "it can do " + strings.Join(can, ", ")
}
