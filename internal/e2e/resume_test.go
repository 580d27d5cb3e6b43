package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"runnel/internal/cli"
)

// serveAgain is serveHTTP for a server that is killed, and started again at the same address.
func serveAgain(t *testing.T, args ...string) (s *httpServer, again func()) {
	t.Helper()
	return serveAfter(t, syscall.SIGKILL, args...)
}

// serveAfter is serveAgain for a server that a signal ends.
func serveAfter(t *testing.T, signal syscall.Signal, args ...string) (s *httpServer, again func()) {
	t.Helper()
	s = &httpServer{}
	address, starts := "", 0
	start := func() {
		starts++
		refused := -1 // how often the address was in use: a child of another test may hold a port until its exec
		for deadline := time.Now().Add(watchdog); address == "" ||
			strings.Count(s.log.String(), `"address":"`+address) < starts; time.Sleep(5 * time.Millisecond) {
			if n := strings.Count(s.log.String(), "address already in use"); refused < 0 || n > refused {
				refused = n
				if starts == 1 { // the system gives out no such port while the server is down
					address = fmt.Sprint("127.0.0.1:", 10_000+rand.IntN(20_000))
					s.url = "http://" + address + "/mcp"
				}
				if s.cmd != nil && s.cmd.ProcessState == nil {
					_ = s.cmd.Wait()
				}
				s.cmd = racedCommand(t,
					append(args, "--no-stdio", "--http", address, "--log-format", "json")...)
				s.cmd.Stderr = &s.log
				if err := s.cmd.Start(); err != nil {
					t.Error(err)
					return
				}
			}
			if time.Now().After(deadline) {
				t.Errorf("it does not listen:\n%s", &s.log)
				return
			}
		}
	}
	kill := func() {
		_ = s.cmd.Process.Signal(signal)
		_ = s.cmd.Wait()
	}
	start()
	t.Cleanup(func() { kill() })
	return s, func() { kill(); start() }
}

// resumed is the client of one call that streams.
type resumed struct {
	t         *testing.T
	s         *httpServer
	session   string
	lastEvent string
	response  *http.Response
	patient   bool // it tries again when the server is busy, or the balancer gets no answer

	text   strings.Builder // the output as partials brought it
	seqs   []int           // their numbers
	rising float64         // the last progress
	last   []string        // what was shown of the output's last line
	ends   []string        // terminal statuses
}

func (r *resumed) send(method, body string) *http.Response {
	r.t.Helper()
	for deadline := time.Now().Add(watchdog); ; time.Sleep(20 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(r.t.Context(), watchdog)
		r.t.Cleanup(cancel)
		request, err := http.NewRequestWithContext(ctx, method, r.s.url, strings.NewReader(body))
		if err != nil {
			r.t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		if r.session != "" {
			request.Header.Set("Mcp-Session-Id", r.session)
		}
		if method == "GET" {
			request.Header.Set("Last-Event-ID", r.lastEvent)
		}
		response, err := http.DefaultClient.Do(request)
		if err == nil && response.StatusCode == http.StatusOK {
			r.t.Cleanup(func() { response.Body.Close() })
			return response
		}
		if err == nil && r.patient && response.StatusCode >= 500 {
			_ = response.Body.Close()
			continue
		}
		if err == nil {
			text, _ := io.ReadAll(response.Body)
			r.t.Fatalf("%s after %q: %s %s\n%s", method, r.lastEvent, response.Status, text, &r.s.log)
		}
		if time.Now().After(deadline) {
			r.t.Fatal(err)
		}
	}
}

// read reads up to n events of the stream, and reports whether it is over.
func (r *resumed) read(n int) (over bool) {
	r.t.Helper()
	lines := bufio.NewReader(r.response.Body)
	id, data := "", ""
	for n > 0 {
		line, err := lines.ReadString('\n')
		if err != nil {
			return err == io.EOF
		}
		switch field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": "); field {
		case "id":
			id = value
		case "data":
			data = value
		case "": // the event is whole
			if r.lastEvent = id; data != "" {
				r.take(data)
				n--
			}
			data = ""
		}
	}
	return false
}

// take notes what a message brings.
func (r *resumed) take(message string) {
	r.t.Helper()
	type items []struct {
		Text  string
		SeqNr int
	}
	var m struct {
		Method string
		Result struct {
			Segments items `json:"partial-content"`
		}
		Params struct {
			Content       items
			Seq           *int
			Status        string
			Message       string
			Progress      float64
			PartialResult struct {
				Chunk struct{ Content items }
			}
		}
	}
	if err := json.Unmarshal([]byte(message), &m); err != nil {
		r.t.Fatalf("%v: %s", err, message)
	}
	for _, pieces := range []items{m.Result.Segments, m.Params.Content,
		m.Params.PartialResult.Chunk.Content} {
		for _, piece := range pieces {
			r.text.WriteString(piece.Text)
			if piece.SeqNr > 0 {
				r.seqs = append(r.seqs, piece.SeqNr-1)
			}
		}
	}
	if m.Params.Seq != nil {
		r.seqs = append(r.seqs, *m.Params.Seq)
	}
	if m.Method == "notifications/progress" {
		if m.Params.Progress <= r.rising {
			r.t.Errorf("progress %v after %v", m.Params.Progress, r.rising)
		}
		r.rising = m.Params.Progress
		r.last = append(r.last, m.Params.Message)
	}
	switch m.Params.Status {
	case "", "working":
	default:
		r.ends = append(r.ends, m.Params.Status)
	}
}

// dialects are the ways in which the output of a task streams in answer to its call, by what the client
// declares and asks for.
var dialects = map[string]struct{ capabilities, params string }{
	"SEP-2679": {`{"tasks":{"streaming":{"partial":{}}}}`, `"task":{}`},
	"SEP-1905": {`{"tasks":{"responses":{"modes":["task","immediate","streaming"]}}}`,
		`"task":{"responseModes":["streaming"]}`},
	"PR #383":  {`{}`, `"task":{},"_meta":{"progressToken":"p{1}","partialResults":true}`},
	"progress": {`{}`, `"task":{},"_meta":{"progressToken":7}`},
}

const sevenLines = `
tools:
  far: {shell: 'for i in 1 2 3 4 5 6 7; do echo "line $i"; sleep 0.15; done', detach: true}
  near: {shell: 'for i in 1 2 3 4 5 6 7; do echo "line $i"; sleep 0.15; done'}
`

func (r *resumed) call(tool, capabilities, params string) {
	r.session = r.send("POST", strings.Replace(initialize, `{"tasks":{"streaming":{"partial":{}}}}`,
		capabilities, 1)).Header.Get("Mcp-Session-Id")
	r.response = r.send("POST", fmt.Sprintf(`{"jsonrpc":"2.0","id":"c","method":"tools/call","params":{"name":%q,"arguments":{},%s}}`, tool, params))
}

// A client whose connection is cut, and whose server is killed and started again, goes on by Last-Event-ID in
// its session: it gets all of the output once, in each dialect, and the end once.
func TestResumeAfterKill(t *testing.T) {
	t.Parallel()
	for name, d := range dialects {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, again := serveAgain(t, append(writeConfig(t, sevenLines), "--state", stateDir(t),
				"--pace", "0")...)
			r := &resumed{t: t, s: s}
			r.call("far", d.capabilities, d.params)
			kills := 0
			for over := false; !over; {
				over = r.read(1 + rand.IntN(3))
				if over && len(r.ends) > 0 {
					break
				}
				r.response.Body.Close()
				if kills++; kills < 4 {
					again()
				}
				r.response = r.send("GET", "")
				over = false
			}
			if fmt.Sprint(r.ends) != "[completed]" {
				t.Errorf("it ended %q", r.ends)
			}
			want := "line 1\nline 2\nline 3\nline 4\nline 5\nline 6\nline 7\n"
			if name == "progress" {
				// No line was shown if it ended while the server was away.
				if n := len(r.last); n > 0 && !strings.HasPrefix(r.last[n-1], "line ") {
					t.Errorf("shown %q", r.last)
				}
			} else if r.text.String() != want {
				t.Errorf("%q", r.text.String())
			}
			for i, seq := range r.seqs {
				if seq != i {
					t.Fatalf("numbers %v", r.seqs)
				}
			}
			// The session goes on, too, and has the result.
			id := regexp.MustCompile(`"taskId":"([^"]+)"`).FindStringSubmatch(r.result("tasks/list", ""))[1]
			if text := r.result("tasks/result", `"taskId":"`+id+`"`); strings.Count(text, "line 7") != 1 {
				t.Error(text)
			}
			// Nothing comes after the end, however often it is asked for.
			r.response = r.send("GET", "")
			if !r.read(1) {
				t.Errorf("more comes after the end: %q %q", r.text.String(), r.ends)
			}
		})
	}
}

// A task that runs in one process goes on by Last-Event-ID in another one with the same state, which reads
// what the first has stored: that lags behind what the client has, and the client gets nothing again.
func TestResumeInAnotherProcess(t *testing.T) {
	t.Parallel()
	config := writeConfig(t, "tools: {near: {shell: 'for i in $(seq 200); do echo \"line $i\"; sleep 0.01; done'}}")
	args := append(config, "--state", stateDir(t), "--pace", "0")
	first, second := serveHTTP(t, args...), serveHTTP(t, args...)
	want := &strings.Builder{}
	for i := range 200 {
		fmt.Fprintf(want, "line %d\n", i+1)
	}
	for name, d := range dialects {
		for n := range 3 {
			t.Run(fmt.Sprint(name, " ", n), func(t *testing.T) {
				t.Parallel()
				r := &resumed{t: t, s: first}
				r.call("near", d.capabilities, d.params)
				r.read(10 + rand.IntN(50))
				r.response.Body.Close()
				r.s = second
				r.response = r.send("GET", "")
				r.read(1 << 30)
				if name != "progress" && r.text.String() != want.String() {
					t.Errorf("%q", r.text.String())
				}
				for i, seq := range r.seqs {
					if seq != i {
						t.Fatalf("numbers %v", r.seqs)
					}
				}
				if fmt.Sprint(r.ends) != "[completed]" {
					t.Errorf("it ended %q", r.ends)
				}
			})
		}
	}
}

// result is the response to a request in the session.
func (r *resumed) result(method, params string) string {
	r.t.Helper()
	text, err := io.ReadAll(r.send("POST",
		fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s}}`, method, params)).Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return string(text)
}

// A call ends with the server that was running it and was killed: a client that comes back gets the rest of
// its output, and is told so.
func TestResumeWhatWasKilled(t *testing.T) {
	t.Parallel()
	s, again := serveAgain(t, append(writeConfig(t, sevenLines), "--state", stateDir(t), "--pace", "0")...)
	r := &resumed{t: t, s: s}
	r.call("near", dialects["SEP-2679"].capabilities, dialects["SEP-2679"].params)
	r.read(4)
	r.response.Body.Close()
	again()
	r.response = r.send("GET", "")
	for !r.read(1) {
	}
	if text := r.text.String(); !strings.HasPrefix(text, "line 1\nline 2\n") ||
		strings.Count(text, "line 2") != 1 || fmt.Sprint(r.ends) != "[failed]" {
		t.Errorf("%q, ended %q", text, r.ends)
	}
	// A call that is no task has no log to go on with: its client is told that no answer comes.
	r = &resumed{t: t, s: s}
	r.call("near", `{}`, `"_meta":{"progressToken":1}`)
	r.read(2)
	r.response.Body.Close()
	again()
	if text, err := io.ReadAll(r.send("GET", "").Body); err != nil ||
		strings.Count(string(text), "\ndata: {") != 1 ||
		!strings.Contains(string(text), `"id":"c","error":{`) {
		t.Errorf("%q: %s, %v", r.lastEvent, text, err)
	}
}

// The end of a task is not held up by a client that leaves its stream unread: neither when the task is
// cancelled, nor when the client has gone. It can go on with the stream all the same.
func TestUnreadStreamHoldsNoEnd(t *testing.T) {
	t.Parallel()
	const lines = 1_000_000
	s := serveHTTP(t, append(writeConfig(t,
		fmt.Sprintf("tools: {flood: {shell: 'seq %d; exec sleep 600'}, pour: {shell: 'seq %d'}}", lines,
			lines)), "--state", stateDir(t))...)
	begin := func(tool string) (r *resumed, id string) {
		r = &resumed{t: t, s: s}
		r.call(tool, dialects["SEP-2679"].capabilities, dialects["SEP-2679"].params)
		r.read(3)
		all := regexp.MustCompile(`"taskId":"([^"]+)"`).FindAllStringSubmatch(r.result("tasks/list", ""), -1)
		return r, all[len(all)-1][1]
	}
	ends := func(r *resumed, id, how string) {
		t.Helper()
		for began := time.Now(); !strings.Contains(r.result("tasks/get", `"taskId":"`+id+`"`),
			how); time.Sleep(20 * time.Millisecond) {
			if time.Since(began) > 30*time.Second {
				t.Fatalf("it is not %s: %s", how, r.result("tasks/get", `"taskId":"`+id+`"`))
			}
		}
	}
	r, id := begin("flood")
	r.result("tasks/cancel", `"taskId":"`+id+`"`)
	ends(r, id, `"cancelled"`)

	r, id = begin("pour")
	r.response.Body.Close()
	ends(r, id, `"completed"`)
	for len(r.ends) == 0 {
		r.response = r.send("GET", "")
		r.read(1 << 30)
	}
	if text := r.text.String(); strings.Count(text, "\n") != lines ||
		!strings.HasSuffix(text, fmt.Sprintf("\n%d\n", lines)) || fmt.Sprint(r.ends) != "[completed]" {
		t.Errorf("%d lines, ended %q", strings.Count(text, "\n"), r.ends)
	}
	for i, seq := range r.seqs {
		if seq != i {
			t.Fatalf("%d comes at %d", seq, i)
		}
	}
}

// A session that its client has ended does not come back, and an id that was never issued opens none. The
// others open again, also with what they have subscribed to.
func TestEndedSessionStaysEnded(t *testing.T) {
	t.Parallel()
	s, again := serveAgain(t, "--selftest", "--state", stateDir(t))
	r := &resumed{t: t, s: s}
	session := r.send("POST", initialize).Header.Get("Mcp-Session-Id")
	other := r.send("POST", initialize).Header.Get("Mcp-Session-Id")
	subscribed := r.send("POST", initialize).Header.Get("Mcp-Session-Id")
	// The version that has batches.
	batched := r.send("POST", strings.Replace(initialize, "2025-11-25", "2025-03-26", 1)).
		Header.Get("Mcp-Session-Id")
	status := func(method, session string) int {
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
		const subscribe = `{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"x:y"}}`
		switch method {
		case "subscribe":
			method, body = "POST", subscribe
		case "batch":
			method, body = "POST", "["+subscribe+"]"
		}
		request, _ := http.NewRequest(method, s.url, strings.NewReader(body))
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Mcp-Session-Id", session)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response.StatusCode
	}
	again()
	for _, c := range []struct {
		method, session string
		status          int
	}{
		{"POST", session, 200}, {"DELETE", session, 204}, {"POST", session, 404}, {"POST", other, 200},
		{"POST", "unknown", 404},
		{"POST", other[:len(other)-2], 404}, {"POST", "x.e30", 404},
		{"POST", "x." + strings.Repeat("A", 5000), 404},
		{"POST", subscribed, 200}, {"subscribe", subscribed, 200}, {"POST", subscribed, 200},
		{"batch", batched, 200}, {"POST", batched, 200},
		{"again", "", 0},
		{"POST", session, 404}, {"GET", session, 404}, {"DELETE", session, 404}, {"POST", subscribed, 200},
		{"POST", batched, 200}, {"POST", other, 200},
	} {
		if c.method == "again" {
			again()
			continue
		}
		if got := status(c.method, c.session); got != c.status {
			t.Errorf("%s %.40s: %d, want %d", c.method, c.session, got, c.status)
		}
	}
}

// The standing stream of a session that is opened again after a restart says first that the lists may be
// others.
func TestListsAfterARestart(t *testing.T) {
	t.Parallel()
	s, again := serveAgain(t, "--selftest", "--state", stateDir(t))
	r := &resumed{t: t, s: s}
	r.session = r.send("POST", initialize).Header.Get("Mcp-Session-Id")
	again()
	lines := bufio.NewScanner(r.send("GET", "").Body)
	for lines.Scan() && !strings.Contains(lines.Text(), `"notifications/tools/list_changed"`) {
	}
	if lines.Err() != nil {
		t.Error(lines.Err())
	}
}

// runnel call goes on, too, when its server is killed, or stopped, and started again.
func TestCallOutlivesItsServer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		flag   string
		signal syscall.Signal
	}{{"--task", syscall.SIGKILL}, {"--mode=streaming", syscall.SIGKILL}, {"--task", syscall.SIGTERM}} {
		t.Run(fmt.Sprint(c.flag, " ", c.signal), func(t *testing.T) {
			t.Parallel()
			s, again := serveAfter(t, c.signal, append(writeConfig(t, sevenLines), "--state", stateDir(t))...)
			stderr := &syncBuffer{}
			var restart sync.WaitGroup
			out := &trigger{text: "line 3", do: func() { restart.Go(again) }}
			code := cli.Run(t.Context(), []string{"call", "far", "--url", s.url, "--summary", c.flag},
				append(environ(t), noConfig), strings.NewReader(""), out, stderr)
			restart.Wait()
			if code != exitFine || out.String() != "line 1\nline 2\nline 3\nline 4\nline 5\nline 6\nline 7\n" || !strings.Contains(stderr.String(), "gaps 0") {
				t.Errorf("exit code %d\n%s\n%s\n%s", code, out, stderr, &s.log)
			}
		})
	}
}
