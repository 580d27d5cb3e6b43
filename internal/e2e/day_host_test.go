//go:build linux

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// dayProfile is what a host can do, as WIRE.md has it.
type dayProfile struct {
	name, client, version string
	capabilities          string // members of the object
	// task makes a call a task; "" = the host uses start_task. In the stateless era the server decides.
	task            string
	meta            string // members of each call's _meta; %d is a number of its own
	stateless, http bool
	listens         bool // to the tasks that it is given
	steady          bool // it is never restarted
}

var dayProfiles = []dayProfile{
	{name: "calm", client: "claude-code", version: "2026-07-28", stateless: true,
		capabilities: takes + "," + elicits, listens: true},
	{name: "vscode", client: "Visual Studio Code", version: "2025-11-25",
		capabilities: `"tasks":{"streaming":{"partial":{}}},"elicitation":{}`, task: `{}`,
		meta: `"progressToken":%d`},
	{name: "codex", client: "codex-mcp-client", version: "2025-06-18", capabilities: `"elicitation":{}`,
		meta: `"progressToken":%d`, steady: true},
	{name: "print", client: "claude-code", version: "2026-07-28", stateless: true, capabilities: elicits,
		meta: `"progressToken":%d`},
	{name: "old", client: "old-client", version: "2024-11-05"},
	{name: "segments", client: "router", version: "2025-11-25",
		capabilities: `"tasks":{"responses":{"modes":["task","immediate","streaming"]}}`,
		task:         `{"responseModes":["streaming","task"]}`},
	{name: "pr383", client: "pr383", version: "2025-06-18", meta: `"progressToken":%d,"partialResults":true`},
	{name: "sep2998", client: "sep2998", version: "2026-07-28", stateless: true, capabilities: takesPartials,
		meta: `"partialResultToken":"p%d"`},
	{name: "http", client: "opencode", version: "2025-11-25", http: true},
	{name: "http stateless", client: "goose", version: "2026-07-28", stateless: true, http: true,
		capabilities: `"extensions":{"io.modelcontextprotocol/tasks":{}}`},
}

// dayHost is a host program: one client of one runnel at a time.
//
// Goroutines: one plays (day_play_test.go), one reads what the server writes, one for each call that is made
// with others.
type dayHost struct {
	d       *day
	number  int
	profile dayProfile
	project *dayProject
	flags   []string
	rng     *rand.Rand
	tools   []dayTool
	starter bool       // start_task is listed
	starts  int        // of its runnel
	calls   int        // so far
	pending []*dayCall // tasks that it has left running

	mu      sync.Mutex
	s       *session
	opened  bool          // its server has answered
	gone    chan struct{} // its server has ended
	answers map[string]chan answer
	chunks  map[string]string // text of PR #383, by progress token
	lastID  int
}

// errServerEnded is what a request gets whose server was killed.
var errServerEnded = errors.New("the server has ended")

// connect starts a runnel, or opens a session with the one at the URL.
func (h *dayHost) connect() {
	h.mu.Lock()
	if h.profile.http {
		h.s = h.d.shared.connect(h.d)
	} else {
		h.s = process(h.d.t, h.d.command(h.project.dir, append(h.flags, h.project.flags...)...))
	}
	h.gone = make(chan struct{})
	h.answers = map[string]chan answer{}
	h.chunks = map[string]string{}
	h.starts++
	h.opened = false
	s, gone := h.s, h.gone
	h.mu.Unlock()
	go h.read(s, gone)
	var opened json.RawMessage
	if h.profile.stateless {
		h.must("server/discover", "")
	} else {
		opened = h.must("initialize",
			fmt.Sprintf(`"protocolVersion":%q,"clientInfo":{"name":%q,"version":"1"},"capabilities":{%s}`,
				h.profile.version, h.profile.client, h.profile.capabilities))
	}
	h.mu.Lock()
	h.opened = true
	h.mu.Unlock()
	if h.profile.stateless {
		return
	}
	h.d.same(h.String(), h.profile.name+" initialize "+h.project.marker, string(opened))
	h.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

func (h *dayHost) read(s *session, gone chan struct{}) {
	defer close(gone)
	for {
		line, err := s.next(watchdog)
		switch {
		case err == errNothing:
			continue
		case err != nil && line == nil:
			return
		case err != nil:
			h.d.fail("%v: %v", h, err)
			continue
		}
		var m struct {
			ID     json.RawMessage
			Method string
			Params json.RawMessage
			answer
		}
		if err := json.Unmarshal(line, &m); err != nil {
			h.d.fail("%v: %v: %s", h, err, line)
			continue
		}
		if m.Method == "elicitation/create" {
			s.audit.crosses(string(m.ID))
			h.sendTo(s, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, dayAnswer(m.Params)))
		}
		if m.Method == "notifications/progress" {
			h.takeChunk(m.Params)
		}
		if m.Method != "" {
			continue
		}
		h.mu.Lock()
		got := h.answers[string(m.ID)]
		delete(h.answers, string(m.ID)) // further ones are the segments of SEP-1905, which the audit reads
		h.mu.Unlock()
		if got != nil {
			got <- m.answer
		}
	}
}

// dayAnswer is what the user says to a question: always the same.
func dayAnswer(params json.RawMessage) string {
	if bytes.Contains(params, []byte(`"answer"`)) {
		return `{"action":"accept","content":{"answer":"yes"}}`
	}
	return `{"action":"accept","content":{}}`
}

func (h *dayHost) send(line string) {
	h.mu.Lock()
	s := h.s
	h.mu.Unlock()
	h.sendTo(s, line)
}

// Fails when the process has ended.
func (h *dayHost) sendTo(s *session, line string) { _ = s.send([]byte(line + "\n")) }

// post sends a request. members are those of its params but _meta.
func (h *dayHost) post(method, meta, members string) (id int, got chan answer, gone chan struct{}) {
	got = make(chan answer, 1)
	h.mu.Lock()
	h.lastID++
	id, gone = h.lastID, h.gone
	h.answers[fmt.Sprint(id)] = got
	h.mu.Unlock()
	if strings.Contains(meta, "%d") {
		meta = fmt.Sprintf(meta, id)
	}
	params := "{" + members + "}"
	switch {
	case h.profile.stateless:
		params = strings.Replace(inEra(h.profile.capabilities, meta, members), `"mixed"`,
			fmt.Sprintf("%q", h.profile.client), 1)
	case meta != "":
		params = `{"_meta":{` + meta + "}"
		if members != "" {
			params += "," + members
		}
		params += "}"
	}
	h.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, params))
	return id, got, gone
}

// takeChunk keeps what PR #383 carries of a call's content.
func (h *dayHost) takeChunk(params json.RawMessage) {
	var p struct {
		ProgressToken json.RawMessage
		PartialResult struct {
			Chunk struct{ Content []struct{ Text string } }
		}
	}
	_ = json.Unmarshal(params, &p)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, item := range p.PartialResult.Chunk.Content {
		h.chunks[string(p.ProgressToken)] += item.Text
	}
}

// chunksOf is what of a call's content came before its answer.
func (h *dayHost) chunksOf(id int) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	text := h.chunks[fmt.Sprint(id)]
	delete(h.chunks, fmt.Sprint(id))
	return text
}

// ask sends a request and waits for its answer.
func (h *dayHost) ask(method, meta, members string) (answer, error) {
	_, got, gone := h.post(method, meta, members)
	return h.await(method, members, got, gone)
}

func (h *dayHost) await(method, members string, got chan answer, gone chan struct{}) (answer, error) {
	late := time.NewTimer(watchdog)
	defer late.Stop()
	select {
	case a := <-got:
		return a, nil
	case <-gone:
		return answer{}, errServerEnded
	case <-late.C:
		h.mu.Lock()
		pid := h.s.pid
		h.mu.Unlock()
		_ = syscall.Kill(pid, syscall.SIGABRT) // says where it hangs
		<-gone
		h.d.fail("%v: %s %s: no answer after %v\n%s", h, method, members, watchdog, h.log())
		return answer{}, errServerEnded
	}
}

// must is ask for a result that must come.
func (h *dayHost) must(method, members string) json.RawMessage {
	a, err := h.ask(method, "", members)
	if err != nil || a.Error != nil {
		h.d.fail("%v: %s %s: %v %+v\n%s", h, method, members, err, a.Error, h.log())
	}
	return a.Result
}

func (h *dayHost) log() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.s.stderr.String()
}

func (h *dayHost) String() string {
	return fmt.Sprintf("host %d (%s, %s)", h.number, h.profile.name, filepath.Base(h.project.dir))
}

// stop ends the session: by its end of file, or by a kill.
func (h *dayHost) stop(kill bool) {
	h.mu.Lock()
	s, gone := h.s, h.gone
	h.mu.Unlock()
	if kill && !h.profile.http {
		_ = syscall.Kill(s.pid, syscall.SIGKILL)
	}
	_ = s.closeStdin()
	select {
	case <-gone:
	case <-time.After(watchdog):
		_ = syscall.Kill(s.pid, syscall.SIGABRT)
		<-gone
		h.d.fail("%v: its runnel does not end at the end of its input\n%s", h, s.stderr)
	}
	<-s.exited
	if log := s.stderr.String(); broken.MatchString(log) {
		h.d.fail("%v: %s", h, log)
	}
	if !kill && s.code != 0 && !h.profile.http {
		h.d.fail("%v: its runnel ended with %s\n%s", h, s.how, s.stderr)
	}
}

// hangUp says to its runnel that the config is to be read again. One that is still starting reads it anyway,
// and the signal would end it.
func (h *dayHost) hangUp() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.opened {
		_ = syscall.Kill(h.s.pid, syscall.SIGHUP)
	}
}

// connect opens one more session over HTTP.
func (s *httpServer) connect(d *day) *session {
	in, out := io.Pipe()
	c := &carrier{t: d.t, url: s.url}
	c.s = newSession(d.t, out, nil)
	c.s.stderr = &s.log
	c.s.streams = true
	c.s.pid = s.cmd.Process.Pid
	var cancel context.CancelFunc
	c.ctx, cancel = context.WithCancel(context.Background())
	d.t.Cleanup(func() { _ = out.Close(); <-c.s.exited })
	go func() {
		defer close(c.s.exited)
		lines := bufio.NewReader(in)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				break
			}
			c.carry(bytes.TrimSpace(line))
		}
		cancel()
		c.open.Wait()
		c.s.deliver(nil, io.EOF)
	}()
	return c.s
}
