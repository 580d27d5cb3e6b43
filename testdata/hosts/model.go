package hosts

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// A Model is a model's endpoint on loopback that plays a script instead of thinking. It speaks what the hosts
// speak: Anthropic Messages, OpenAI Responses and Chat Completions, Gemini. It is stateless as the real ones
// are: what comes next follows from the conversation in the request, so a host may repeat a request.
//
// The hosts have it as their HTTP proxy, too. It refuses whatever goes elsewhere and remembers where that
// was.
type Model struct {
	URL  string
	Last func(notes []string) string // what it says when it calls nothing; nil = that the script has ended
	play Play

	server *http.Server

	mu        sync.Mutex
	results   []Result        // those of the longest conversation
	called    []Call          // the calls of the script that they answer
	notes     []string        // what its host says of tasks in the background
	asked     int             // requests with tools
	strangers map[string]bool // requests that no model answers
	pictures  map[string]bool // the PNG files in all requests
	trace     io.Writer
}

// Play is a script: it gets the results of all calls so far and says what the model calls next. nil = the
// model is done.
type Play func(results []Result) []Call

// A Call is one call of a tool of runnel's, by the name that runnel gives it.
type Call struct {
	Tool string
	Args map[string]any
}

// A Result is what the model was given for a call.
type Result struct {
	ID   string
	Text string
}

// A toolName is a tool as the host lists it. Few have namespaces.
type toolName struct{ namespace, name string }

// A conversation is what a request of any dialect says.
type conversation struct {
	tools   []toolName
	results []Result
	notes   []string
	stream  bool
}

// A toolCall is a call as it goes to the host.
type toolCall struct {
	id   string
	tool toolName
	args map[string]any
}

// A dialect reads requests of one API and writes its answers: calls, or text where there are none.
type dialect struct {
	path   *regexp.Regexp
	read   func(path string, body []byte) (conversation, error)
	answer func(w *events, c conversation, text string, calls []toolCall)
}

var dialects = []dialect{messages, responses, chat, gemini}

// ended is what the model says last.
const ended = "The script has ended."

// Serve starts a model that plays a script.
func Serve(play Play, trace io.Writer) (*Model, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	m := &Model{URL: "http://" + l.Addr().String(), play: play, strangers: map[string]bool{},
		pictures: map[string]bool{}, trace: trace}
	m.server = &http.Server{Handler: m}
	go func() { _ = m.server.Serve(l) }()
	return m, nil
}

func (m *Model) Close() { _ = m.server.Close() }

// Read returns all calls and what the model was given for them.
func (m *Model) Read() ([]Call, []Result) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.called), slices.Clone(m.results)
}

// Notes returns what the host has told the model of tasks in the background.
func (m *Model) Notes() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.notes)
}

// Asked returns how often a host has asked what comes next.
func (m *Model) Asked() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.asked
}

// Strangers returns the places other than the model where the host went: "CONNECT example.com:443".
func (m *Model) Strangers() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []string
	for s := range m.strangers {
		all = append(all, s)
	}
	slices.Sort(all)
	return all
}

func (m *Model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	m.tracef("%s %s\n%s\n\n", r.Method, r.RequestURI, body)
	i := -1
	if r.Method == http.MethodPost && !r.URL.IsAbs() {
		i = slices.IndexFunc(dialects, func(d dialect) bool { return d.path.MatchString(r.URL.Path) })
	}
	if i < 0 {
		m.mu.Lock()
		m.strangers[r.Method+" "+r.RequestURI] = true
		m.mu.Unlock()
		http.Error(w, `{"error":{"message":"this is a scripted model","type":"not_found_error"}}`,
			http.StatusNotFound)
		return
	}
	m.look(body)
	d := dialects[i]
	c, err := d.read(r.URL.Path, body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	text, calls := m.next(c)
	out := &events{w: w}
	if c.stream {
		w.Header().Set("Content-Type", "text/event-stream")
	} else {
		w.Header().Set("Content-Type", "application/json")
	}
	d.answer(out, c, text, calls)
	m.tracef("<-- %s\n\n", out.sent.String())
}

// look keeps the pictures of a request: every dialect has them in base64, and each has its own words around.
func (m *Model) look(body []byte) {
	for _, text := range regexp.MustCompile(`[A-Za-z0-9+/]{100,}=*`).FindAll(body, -1) {
		data, err := base64.StdEncoding.DecodeString(string(text))
		if err == nil && bytes.HasPrefix(data, []byte("\x89PNG")) {
			m.mu.Lock()
			m.pictures[string(data)] = true
			m.mu.Unlock()
		}
	}
}

// Saw reports whether a request had a picture, byte by byte.
func (m *Model) Saw(picture []byte) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pictures[string(picture)]
}

// next says what the model does after a conversation. Without tools it was asked for something else, such as
// a title.
func (m *Model) next(c conversation) (string, []toolCall) {
	if len(c.tools) == 0 {
		return "A test", nil
	}
	var results, found []Result
	for _, r := range c.results {
		if strings.HasPrefix(r.ID, "find") {
			found = append(found, r)
		} else {
			results = append(results, r)
		}
	}
	slices.SortStableFunc(results, func(a, b Result) int { return callNumber(a.ID) - callNumber(b.ID) })
	wanted := m.play(results)

	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked++
	if len(c.notes) > len(m.notes) {
		m.notes = c.notes
	}
	if len(results) >= len(m.results) {
		m.results = results
		m.called = append(m.called[:min(len(m.called), len(results))], wanted...)
	}
	var calls []toolCall
	for i, w := range wanted {
		if w.Args == nil {
			w.Args = object{}
		}
		tool, ok := find(c.tools, w.Tool)
		deferred := "mcp__runnel__" + w.Tool
		if !ok {
			seen := slices.ContainsFunc(found,
				func(r Result) bool { return strings.Contains(r.Text, `"`+deferred+`"`) })
			if tool, ok = named(c.tools, "tool_call"); ok && seen {
				w.Args = object{"name": deferred, "arguments": w.Args}
			} else if tool, ok = named(c.tools, "ToolSearch", "tool_search"); ok && len(found) < maxFinds {
				return "", []toolCall{{fmt.Sprintf("find_%d", len(found)), tool,
					object{"query": "select:" + deferred}}}
			} else {
				return fmt.Sprintf("There is no tool %s.", w.Tool), nil
			}
		}
		calls = append(calls, toolCall{fmt.Sprintf("call_%d", len(results)+i), tool, w.Args})
	}
	if len(calls) == 0 && m.Last != nil {
		return m.Last(c.notes), nil
	}
	if len(calls) == 0 {
		return ended, nil
	}
	return "", calls
}

// callNumber is which call of the script an id is of. Results of calls that run at once come in any order.
func callNumber(id string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(id, "call_"))
	return n
}

// find finds a tool of runnel's under the name that the host has given it: mcp__runnel__short, runnel-short,
// short.
func find(tools []toolName, want string) (toolName, bool) {
	for _, prefixed := range []bool{true, false} {
		for _, t := range tools {
			full := t.namespace + t.name
			if prefixed && strings.Contains(full, "runnel") &&
				regexp.MustCompile(`(^|[^a-z])`+want+`$`).MatchString(t.name) || !prefixed && t.name == want {
				return t, true
			}
		}
	}
	return toolName{}, false
}

// named finds a tool of the host's own. Hosts that defer tools have one that shows the schema of a tool, and
// perhaps one that calls it.
func named(tools []toolName, names ...string) (toolName, bool) {
	i := slices.IndexFunc(tools, func(t toolName) bool { return slices.Contains(names, t.name) })
	if i < 0 {
		return toolName{}, false
	}
	return tools[i], true
}

// maxFinds bounds how often the model looks for tools: a host may never show one.
const maxFinds = 10

func (m *Model) tracef(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	fmt.Fprintf(m.trace, format, args...)
}

// events writes an answer: server-sent events or one JSON body.
type events struct {
	w    http.ResponseWriter
	sent strings.Builder
}

// event writes one event; without a name only its data.
func (e *events) event(name string, data any) {
	if name != "" {
		e.text("event: " + name + "\n")
	}
	e.text("data: " + encode(data) + "\n\n")
}

func (e *events) text(s string) {
	e.sent.WriteString(s)
	_, _ = io.WriteString(e.w, s)
	if f, ok := e.w.(http.Flusher); ok {
		f.Flush()
	}
}

func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic("internal error: " + err.Error())
	}
	return string(b)
}

// object is a JSON object that is written.
type object = map[string]any

// textOf joins the texts of content that may be a string or a list of parts.
func textOf(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return string(raw)
	}
	var texts []string
	for _, p := range parts {
		if p.Text == "" && p.Type != "text" && p.Type != "input_text" {
			p.Text = "[" + p.Type + "]"
		}
		texts = append(texts, p.Text)
	}
	return strings.Join(texts, "\n")
}
