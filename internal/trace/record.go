package trace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"runnel/internal/term"
	"runnel/partials/tracker"
	"runnel/rpc/mcp"
	"runnel/tools/secrets"
)

// maxNoted is the longest line that a record shows, in bytes; of a longer one it shows the length.
const maxNoted = 1 << 20

// direction says which side a message comes from.
type direction uint8

// The directions. doctor --host uses only the first.
const (
	FromHost direction = iota
	fromServer
)

// Record records a session: one message per line,
//
//	TIME ARROW WHAT: REMARKS | MESSAGE
//
// TIME in seconds from the start, --> from the host and <-- from the server. A line that begins with # is not
// a message.
type Record struct {
	began time.Time

	mu      sync.Mutex
	out     io.Writer
	secrets *secrets.Set // masked in the record; nil = none
	err     error
	notes   []string                    // remarks on the current message
	asked   [2]map[string]asked         // each side's open requests, by id
	tracked map[string]*tracker.Tracker // calls, by task and by token: see byTask, byToken
}

type asked struct {
	method string
	at     time.Time
	tool   string
	call   *tracker.Tracker // nil if it is not a tools/call
	stream bool             // it may have several responses (SEP-1905)
}

// The keys of record.tracked.
func byTask(id string) string              { return "task " + id }
func byToken(token json.RawMessage) string { return "token " + string(token) }

// New begins a record with a title. Lines feeds it. Secrets are masked in the title and in each message.
func New(out io.Writer, title string, hide *secrets.Set) *Record {
	t := &Record{began: time.Now(), out: out, secrets: hide, asked: [2]map[string]asked{{}, {}},
		tracked: map[string]*tracker.Tracker{}}
	t.event(hide.String(title) + ", " + t.began.Format(time.RFC3339))
	return t
}

// event writes a line that is not a message.
func (t *Record) event(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.print("# %10.6f %s\n", time.Since(t.began).Seconds(), text)
}

// print writes without a buffer: somebody may be watching. mu is held.
func (t *Record) print(format string, args ...any) {
	if _, err := t.out.Write(fmt.Appendf(nil, format, args...)); t.err == nil {
		t.err = err
	}
}

// note adds a remark to the current message. mu is held.
func (t *Record) note(format string, args ...any) {
	t.notes = append(t.notes, fmt.Sprintf(format, args...))
}

// Failure says why the record is incomplete, nil if it is complete.
func (t *Record) Failure() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// Lines returns a function that takes the bytes of one direction, in pieces; nil says that no more will come.
func (t *Record) Lines(d direction) func([]byte) {
	var line []byte
	long := 0
	return func(p []byte) {
		if text := bytes.TrimSpace(line); p == nil && len(text) > 0 {
			t.message(d, text, long)
			t.event("the line before it has no end: its reader may not take it for a message")
			return
		}
		for len(p) > 0 {
			piece, rest, ended := bytes.Cut(p, []byte("\n"))
			long += len(piece)
			if len(line) < maxNoted {
				line = append(line, piece...)
			}
			if ended {
				if text := bytes.TrimSpace(line); len(text) > 0 {
					t.message(d, text, long)
				}
				line, long = line[:0], 0
			}
			p = rest
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
	t.notes = nil
	switch err := json.Unmarshal(line, &m); {
	case err != nil && line[0] == '[' && json.Valid(line):
		what = "a batch"
	case !json.Valid(line):
		what = "NO MESSAGE"
		t.note("%v", err)
	case m.Method != "" && m.ID != nil:
		what = t.request(d, m.ID, m.Method, m.Params)
	case m.Method != "":
		what = m.Method
		if d == fromServer {
			t.notification(m.Method, m.Params)
		}
	default:
		what = t.response(d, m.ID, m.Result)
		if m.Error != nil {
			t.note("error %d, %s", m.Error.Code, m.Error.Message)
		}
	}
	if len(t.notes) > 0 {
		what += ": " + term.Printable(strings.Join(t.notes, "; "))
	}
	t.print("%12.6f %s %s | %s\n", at, arrow, escaped(t.secrets.String(what)),
		escaped(string(t.secrets.JSON(line))))
}

// escaped writes as JSON does the characters that could move the cursor, change colours, write to the
// clipboard or change the direction of the text when the record is shown on a terminal: a record shows what
// was said, so they are not dropped. A byte that is not UTF-8, which may be such a character on an old
// terminal, becomes \xNN.
func escaped(text string) string {
	var b strings.Builder
	for len(text) > 0 {
		switch r, size := utf8.DecodeRuneInString(text); {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
			text = text[1:]
		case term.Printable(string(r)) != string(r):
			fmt.Fprintf(&b, `\u%04x`, r)
			text = text[size:]
		default:
			b.WriteRune(r)
			text = text[size:]
		}
	}
	return b.String()
}

func (t *Record) request(d direction, id json.RawMessage, method string, params []byte) (what string) {
	if _, twice := t.asked[d][string(id)]; twice {
		t.note("THE ID IS IN FLIGHT")
	}
	a := asked{method: method, at: time.Now()}
	var p struct {
		Name         string                 `json:"name"`
		Version      string                 `json:"protocolVersion"`
		Info         mcp.Implementation     `json:"clientInfo"`
		Capabilities mcp.ClientCapabilities `json:"capabilities"`
		Meta         mcp.RequestMeta        `json:"_meta"`
		Task         *mcp.TaskMetadata      `json:"task"`
	}
	_ = json.Unmarshal(params, &p) // members of a wrong type read as absent
	switch method {
	case "server/discover":
		_ = json.Unmarshal(p.Meta.ClientCapabilities, &p.Capabilities)
		_ = json.Unmarshal(p.Meta.ClientInfo, &p.Info)
		p.Version = term.Unquoted(p.Meta.ProtocolVersion)
		fallthrough
	case "initialize":
		t.note("%s %s speaks %s; %s", p.Info.Name, p.Info.Version, p.Version, abilities(&p.Capabilities))
	case "tools/call":
		a.tool = p.Name
		if p.Task != nil {
			t.note("as a task")
			a.stream = slices.Contains(p.Task.ResponseModes, mcp.ModeStreaming)
		}
		token := p.Meta.ProgressToken
		if token != nil {
			t.note("with progress")
		} else {
			token = p.Meta.PartialResultToken
		}
		if p.Meta.PartialResults || p.Meta.PartialResultToken != nil {
			t.note("with partial results")
		}
		a.call = t.track(token)
	}
	if len(t.asked[d]) >= maxTracked { // the other side answers nothing
		clear(t.asked[d])
	}
	t.asked[d][string(id)] = a
	return strings.TrimSpace(method + " " + a.tool)
}

// maxTracked bounds the calls, and the requests without an answer, that are kept: a host that runs for days
// makes more.
const maxTracked = 10000

func (t *Record) track(token json.RawMessage) *tracker.Tracker {
	if len(t.tracked) >= maxTracked {
		clear(t.tracked)
	}
	c := tracker.New(tracker.Options{
		Token:  bytes.Clone(token),
		Window: 1,
		Gap:    func(g tracker.Gap) { t.note("GAP%s", strings.TrimPrefix(g.String(), "gap")) },
	})
	if token != nil {
		t.tracked[byToken(token)] = c
	}
	return c
}

// response describes the request that a message answers. A request may have several responses (SEP-1905).
func (t *Record) response(d direction, id, result json.RawMessage) (what string) {
	a, ok := t.asked[1-d][string(id)]
	if !ok {
		t.note("IT ANSWERS NOTHING")
		return "a response"
	}
	t.note("after %.3f ms", float64(time.Since(a.at).Microseconds())/1000)
	more := false
	if c := a.call; c != nil && result != nil {
		var r struct {
			IsComplete bool `json:"isComplete"`
		}
		_ = json.Unmarshal(result, &r) // members of a wrong type read as absent
		more = c.Response(result) != tracker.AnswerResult && a.stream && !r.IsComplete
		if id := c.TaskID(); id != "" {
			t.tracked[byTask(id)] = c
			t.note("task %s", id)
		}
	}
	if !more {
		delete(t.asked[1-d], string(id))
	}
	return strings.TrimSpace("response to " + a.method + " " + a.tool)
}

func (t *Record) notification(method string, params json.RawMessage) {
	var p struct {
		TaskID string          `json:"taskId"`
		Token  json.RawMessage `json:"progressToken"`
		Result json.RawMessage `json:"partialResultToken"`
		Seq    *int64          `json:"seq"`
		Status mcp.TaskStatus  `json:"status"`
	}
	_ = json.Unmarshal(params, &p) // members of a wrong type read as absent
	if p.Status != "" {
		t.note("%s", p.Status)
	}
	var calls []*tracker.Tracker
	for _, key := range []string{byTask(p.TaskID), byToken(p.Token), byToken(p.Result)} {
		if c := t.tracked[key]; c != nil {
			calls = []*tracker.Tracker{c}
		}
	}
	if calls == nil && p.TaskID != "" { // the call that made this task may not have been answered yet
		for _, a := range t.asked[FromHost] {
			if a.call != nil {
				calls = append(calls, a.call)
			}
		}
	}
	if p.Seq != nil {
		t.note("seq %d", *p.Seq)
	}
	for _, c := range calls {
		before := c.Stats()
		c.Notification(method, params)
		switch after := c.Stats(); {
		case after.Duplicates > before.Duplicates:
			t.note("REPEATED")
		case after.Late > before.Late:
			t.note("TOO LATE")
		case after.Malformed > before.Malformed:
			t.note("MALFORMED")
		}
	}
	if method == "notifications/tasks/partial" && calls == nil {
		t.note("OF NO CALL SEEN HERE")
	}
}

// abilities says which of runnel's features a host can use.
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
