package httpserver

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"runnel/internal/headers"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// watchdog is how long a test waits for what must come: generous, since a test machine may be busy.
const watchdog = 2 * time.Minute

// front is a server with methods to try it with, over a real port.
type front struct {
	*Server
	t   *testing.T
	url string
	log *logged

	cancelled chan error // causes of the ends of "wait"
	waiting   chan struct{}
}

type logged struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.String()
}

func serve(t *testing.T, o Options) *front {
	f := &front{t: t, log: &logged{}, cancelled: make(chan error, 100), waiting: make(chan struct{}, 100)}
	o.Log = zerolog.New(f.log)
	o.Owner = "local"
	o.MaxLine = 1 << 20
	o.MaxInFlight = cmp.Or(o.MaxInFlight, 16)
	o.Drain = 50 * time.Millisecond
	var mu sync.Mutex
	owners := map[string]Served{}
	o.Serves = func(owner string) (Served, error) {
		mu.Lock()
		defer mu.Unlock()
		if _, ok := owners[owner]; !ok {
			owners[owner] = Served{Server: f.methods(o),
				InputSchema: func(context.Context, string) []byte { return []byte(mirroring) },
				File:        someFile}
		}
		return owners[owner], nil
	}
	var err error
	if f.Server, err = Listen(t.Context(), "127.0.0.1:0", o); err != nil {
		t.Fatal(err)
	}
	f.url = "http://" + f.Addr().String() + "/mcp"
	var served sync.WaitGroup
	served.Go(func() {
		if err := f.Serve(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { f.Close(); served.Wait() })
	return f
}

// mirroring is the schema of the one tool.
const mirroring = `{"properties":{"region":{"type":"string","x-mcp-header":"Region"},"in":{"properties":{"n":{"type":"integer","x-mcp-header":"N"}}}}}`

// methods: echo answers with its params, count streams numbers, wait waits to be cancelled, ask asks.
func (f *front) methods(o Options) *rpc.Server {
	s := rpc.NewServer(&rpc.Options{MaxLine: o.MaxLine, MaxInFlight: o.MaxInFlight, Log: o.Log})
	for _, era := range []rpc.Era{rpc.Handshake, rpc.Stateless} {
		s.Handle(era, "tools/call", func(_ context.Context, _ *rpc.Caller, params json.RawMessage) (any,
			error) {
			return params, nil
		})
		s.Handle(era, "count", func(ctx context.Context, c *rpc.Caller, params json.RawMessage) (any, error) {
			var p struct{ N, Size, EveryMs int }
			_ = json.Unmarshal(params, &p)
			pad := strings.Repeat("x", p.Size)
			for i := range p.N {
				if p.EveryMs > 0 {
					<-time.After(time.Duration(p.EveryMs) * time.Millisecond)
				}
				at := time.Now().UnixMicro()
				if err := c.Write(ctx, func(dst []byte) []byte {
					return fmt.Appendf(dst, `{"jsonrpc":"2.0","method":"n","params":{"i":%d,"at":%d,"pad":"%s"}}`+"\n", i, at, pad)
				}); err != nil {
					return nil, err
				}
			}
			return struct{}{}, nil
		})
		for _, method := range []string{"wait", "tasks/result", "subscriptions/listen"} {
			s.Handle(era, method, func(ctx context.Context, _ *rpc.Caller, _ json.RawMessage) (any, error) {
				f.waiting <- struct{}{}
				<-ctx.Done()
				f.cancelled <- context.Cause(ctx)
				return nil, context.Cause(ctx)
			})
		}
	}
	s.Handle(rpc.Handshake, "ask", func(ctx context.Context, c *rpc.Caller, _ json.RawMessage) (any, error) {
		var r mcp.ElicitResult
		err := c.Request(ctx, "elicitation/create", nil, &r)
		return r.Action, err
	})
	s.OnSession(func(c *rpc.Caller) { _ = c.Notify("opened", nil) })
	return s
}

// do sends a request; headers are "Name: value".
func (f *front) do(method, body string, headers ...string) *http.Response {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), watchdog)
	f.t.Cleanup(cancel)
	r, _ := http.NewRequestWithContext(ctx, method, f.url, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "" {
			continue
		}
		if name == "Host" {
			r.Host = value
		}
		if another, ok := strings.CutPrefix(name, "+"); ok {
			r.Header.Add(another, value)
		} else {
			r.Header.Set(name, value)
		}
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { response.Body.Close() })
	return response
}

// wants sends a request and checks the status and what the body contains.
func (f *front) wants(status int, contains, method, body string, headers ...string) {
	f.t.Helper()
	r := f.do(method, body, headers...)
	text, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != status || !strings.Contains(string(text), contains) {
		f.t.Errorf("%s %.200s %q: %d %s %v, want %d %s", method, body, headers, r.StatusCode, text, err,
			status, contains)
	}
}

const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`

// open opens a session and returns its header.
func (f *front) open(with ...string) string {
	f.t.Helper()
	r := f.do("POST", initialize, with...)
	id := r.Header.Get(headers.Session)
	if r.StatusCode != http.StatusOK || id == "" || r.Header.Get("Content-Type") != "application/json" {
		f.t.Fatalf("%v", r)
	}
	return headers.Session + ": " + id
}

// event is one of an SSE stream.
type event struct{ id, data string }

// events reads a stream until it ends.
func events(body io.Reader) func(func(event) bool) {
	return func(yield func(event) bool) {
		lines := bufio.NewReader(body)
		var e event
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
			switch name {
			case "id":
				e.id = value
			case "data":
				e.data = value
			case "":
				if e != (event{}) && !yield(e) {
					return
				}
				e = event{}
			}
		}
	}
}

func TestSessions(t *testing.T) {
	t.Parallel()
	f := serve(t, Options{})
	session := f.open()
	call := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x"}}`
	f.wants(200, `{"jsonrpc":"2.0","id":7,"result":{"name":"x"}}`, "POST", call, session)
	f.wants(200, `"id":7`, "POST", strings.ReplaceAll(call, ",", ",\r\n\t"), session,
		"Mcp-Protocol-Version: 2025-11-25")
	f.wants(200, `-32601`, "POST", `{"jsonrpc":"2.0","id":7,"method":"no"}`, session)
	f.wants(202, "", "POST", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, session)
	f.wants(202, "", "POST", `{"jsonrpc":"2.0","id":99,"result":{}}`, session)
	f.wants(400, `-32700`, "POST", `{"jsonrpc":`, session)
	f.wants(400, `-32700`, "POST", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"pi\nng\"}", session)
	f.wants(400, `-32600`, "POST", `[]`, session)
	f.wants(200, `already`, "POST", initialize, session)
	f.wants(400, "send initialize first", "POST", call)
	f.wants(400, "-32700", "POST", "garbage")
	f.wants(404, `"id":7,"error":{"code":-32001,`, "POST", call, "Mcp-Session-Id: foreign")
	f.wants(400, `"id":7`, "POST", call, session, "Mcp-Protocol-Version: 1999-01-01")
	if r := f.do("POST", strings.Replace(initialize, "2025-11-25", "", 1)); r.StatusCode != http.StatusOK ||
		r.Header.Get(headers.Session) != "" {
		t.Errorf("a session that cannot be opened: %d, %q", r.StatusCode, r.Header.Get(headers.Session))
	}
	f.wants(415, "", "POST", call, session, "Content-Type: text/plain")
	f.wants(406, "", "POST", call, session, "Accept: text/html")
	f.wants(406, "", "GET", "", session, "Accept: application/json")
	f.wants(405, "2024-11-05 is not served", "GET", "")
	f.wants(405, "", "PUT", call, session)
	f.wants(413, "1048576", "POST", `"`+strings.Repeat("x", 1<<20)+`"`, session)
	f.wants(405, "", "DELETE", "")
	f.wants(204, "", "DELETE", "", session)
	f.wants(404, "", "DELETE", "", session)
	f.wants(404, `"code":-32001,`, "POST", call, session)
	f.mu.Lock()
	if n := len(f.sessions); n > 0 {
		t.Errorf("%d sessions are left", n)
	}
	f.mu.Unlock()
}

// era is a request of 2026-07-28, and its headers.
func era(method, members string) (body string, headers []string) {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s"_meta":{%q:"2026-07-28",%q:{}}}}`,
			method, members, mcp.MetaProtocolVersion, mcp.MetaClientCapabilities),
		[]string{"Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: " + method}
}

// Where there is no endpoint, a client of 2024-11-05 and one whose URL lacks the path read what is served,
// and where.
func TestNoEndpoint(t *testing.T) {
	t.Parallel()
	f := serve(t, Options{})
	for _, path := range []string{"/", "/sse"} {
		elsewhere := *f
		elsewhere.url = strings.TrimSuffix(f.url, "/mcp") + path
		for _, method := range []string{"GET", "POST"} {
			elsewhere.wants(404, "the MCP endpoint is /mcp, for clients of 2025-03-26 or later", method,
				initialize)
		}
	}
}

func TestStateless(t *testing.T) {
	t.Parallel()
	f := serve(t, Options{})
	call, h := era("tools/call", `"name":"hé",`)
	with := func(headers ...string) []string { return append(slices.Clone(h), headers...) }
	f.wants(200, `"name":"hé"`, "POST", call, with("Mcp-Name: =?base64?aMOp?=")...)
	f.wants(200, `"name":"hé"`, "POST", call, with("Mcp-Name: =?base64?aMOp?=", "Mcp-Session-Id: old")...)
	f.wants(400, `-32020`, "POST", call, with("Mcp-Name: =?base64?!?=")...)
	f.wants(400, `-32020`, "POST", call, h...)
	f.wants(400, `-32020`, "POST", call, with("Mcp-Name: other")...)
	f.wants(400, `-32020`, "POST", call, with("Mcp-Name: =?base64?aMOp?=", "Mcp-Method: tools/list")...)
	f.wants(400, `-32020`, "POST", call, "Mcp-Method: tools/call", "Mcp-Name: =?base64?aMOp?=")
	for _, blank := range []string{" ", "\u00a0", "\n"} { // around a message it changes nothing
		f.wants(400, `-32020`, "POST", blank+call, with("Mcp-Name: other")...)
		f.wants(400, `-32020`, "POST", call+blank, with("Mcp-Name: other")...)
		f.wants(400, `-32020`, "POST", call+blank, f.open())
		f.wants(200, `"name":"hé"`, "POST", blank+call+blank, with("Mcp-Name: =?base64?aMOp?=")...)
	}
	twice, th := era("tasks/get", `"taskId":"a","taskId":"b",`)
	f.wants(400, `-32020`, "POST", twice, append(th, "Mcp-Name: a")...)
	f.wants(400, `-32020`, "POST", call,
		with("Mcp-Name: =?base64?aMOp?=", "Mcp-Protocol-Version: 2025-11-25")...)
	f.wants(400, `-32022`, "POST", strings.Replace(call, "2026-07-28", "2099-01-01", 1),
		with("Mcp-Name: =?base64?aMOp?=", "Mcp-Protocol-Version: 2099-01-01")...)
	f.wants(400, `-32602`, "POST", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
		"Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: tools/list")
	f.wants(400, `-32602`, "POST", strings.Replace(call, `:{}}}`, `:1}}`, 1),
		with("Mcp-Name: =?base64?aMOp?=")...)
	unknown, uh := era("unknown", "")
	f.wants(404, `-32601`, "POST", unknown, uh...)
	f.wants(202, "", "POST", `{"jsonrpc":"2.0","method":"notifications/x"}`,
		"Mcp-Protocol-Version: 2026-07-28")
	f.wants(400, `-32700`, "POST", `{`, "Mcp-Protocol-Version: 2026-07-28")
	f.wants(405, "", "GET", "", "Mcp-Protocol-Version: 2026-07-28")
	f.wants(405, "", "DELETE", "", "Mcp-Protocol-Version: 2026-07-28")
	count, ch := era("count", `"n":3,`)
	r := f.do("POST", count, ch...)
	var got []string
	for e := range events(r.Body) {
		if e.id != "" {
			t.Error("nothing can be resumed in this era")
		}
		got = append(got, rawjson.StringMember([]byte(e.data), "method"))
	}
	if !slices.Equal(got, []string{"n", "n", "n", ""}) ||
		r.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("%q %v", got, r)
	}
}

// Arguments that a tool's schema names with x-mcp-header stand in headers, too.
func TestMirroredArguments(t *testing.T) {
	t.Parallel()
	f := serve(t, Options{})
	for _, c := range []struct {
		arguments, headers string
		status             int
	}{
		{`{}`, "", 200},
		{`null`, "", 200},
		{`{"region":null,"in":{}}`, "", 200},
		{`{"region":"hé","in":{"n":42}}`, "Mcp-Param-Region: =?base64?aMOp?=|mcp-param-n: 42.0", 200},
		{`{"region":"42"}`, "Mcp-Param-Region: 42", 200},
		{`{"region":"42"}`, "Mcp-Param-Region: 42.0", 400},
		{`{"region":"a"}`, "Mcp-Param-Region: =?base64?YQ?=", 400},
		{`{"region":"a"}`, "", 400},
		{`{"region":"a"}`, "Mcp-Param-Region: b", 400},
		{`{}`, "Mcp-Param-Region: b", 400},
		{`{"region":"a","region":"b"}`, "Mcp-Param-Region: a", 400},
		{`{"in":{"n":42}}`, "Mcp-Param-N: 0x2a", 400},
		{`{"in":{"n":42}}`, "", 400},
		{`{"in":{}},"arguments":{"in":{"n":42}}`, "", 400},
	} {
		call, h := era("tools/call", `"name":"x","arguments":`+c.arguments+`,`)
		contains := ""
		if c.status != 200 {
			contains = "-32020"
		}
		f.wants(c.status, contains, "POST", call,
			append(append(h, "Mcp-Name: x"), strings.Split(c.headers, "|")...)...)
	}
}

// "Closing the SSE response stream MUST be treated by the server as cancellation of that request", and a
// broken connection MUST NOT in the handshake era.
func TestClosing(t *testing.T) {
	t.Parallel()
	f := serve(t, Options{})
	wait, h := era("wait", "")
	post := func(body string, headers ...string) (leave func()) {
		ctx, cancel := context.WithCancel(t.Context())
		r, _ := http.NewRequestWithContext(ctx, "POST", f.url, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		for _, h := range headers {
			name, value, _ := strings.Cut(h, ": ")
			r.Header.Set(name, value)
		}
		go func() {
			if response, err := http.DefaultClient.Do(r); err == nil {
				response.Body.Close()
			}
		}()
		<-f.waiting
		return cancel
	}
	post(wait, h...)()
	if err := <-f.cancelled; err != rpc.ErrCancelled {
		t.Error(err)
	}
	session := f.open()
	post(`{"jsonrpc":"2.0","id":1,"method":"wait"}`, session)()
	f.wants(202, "", "POST", `{"jsonrpc":"2.0","method":"notifications/x"}`, session)
	select {
	case err := <-f.cancelled:
		t.Errorf("cancelled: %v", err)
	default:
	}
	f.wants(202, "", "POST", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
		session)
	if err := <-f.cancelled; err != rpc.ErrCancelled {
		t.Error(err)
	}
	post(`{"jsonrpc":"2.0","id":2,"method":"wait"}`, session)
	f.wants(204, "", "DELETE", "", session)
	if err := <-f.cancelled; err != rpc.ErrCancelled {
		t.Error(err)
	}
}

// A request that ends without an answer is not accepted as a notification is.
func TestUnanswered(t *testing.T) {
	t.Parallel()
	f := serve(t, Options{})
	session := f.open()
	for id, end := range []func(){
		func() {
			f.wants(202, "", "POST", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":0}}`, session)
		},
		func() { f.wants(204, "", "DELETE", "", session) },
	} {
		answered := make(chan *http.Response)
		go func() {
			answered <- f.do("POST", fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"wait"}`, id), session)
		}()
		<-f.waiting
		end()
		r := <-answered
		text, err := io.ReadAll(r.Body)
		began := r.Header.Get("Content-Type") == "text/event-stream" // on a busy machine
		if err != nil || !began && (r.StatusCode != []int{200, 404}[id] ||
			!strings.Contains(string(text), `"error"`)) {
			t.Errorf("%v %s %v", r, text, err)
		}
	}
}

// A client that loses its connection at any moment, again and again, goes on with nothing missing and nothing
// twice.
func TestResume(t *testing.T) {
	t.Parallel()
	f := serve(t, Options{})
	session := f.open()
	rng := rand.New(rand.NewPCG(1, 2))
	cut := 0
	for round := 0; cut < 200; round++ {
		const n = 400
		next, last := 0, ""
		r := f.do("POST", fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"count","params":{"n":%d,"size":%d}}`, round, n, rng.IntN(maxKept/n-100)), session)
		for cuts := 0; next <= n; cuts++ {
			if cuts > 0 {
				cut++
				if r = f.do("GET", "", session, "Last-Event-ID: "+last); r.StatusCode != 200 {
					text, _ := io.ReadAll(r.Body)
					t.Fatalf("after %s: %d %s", last, r.StatusCode, text)
				}
			}
			left := rng.IntN(200)
			for e := range events(r.Body) {
				last = e.id
				if i := string(rawjson.Member(rawjson.Member([]byte(e.data), "params"), "i")); e.data != "" &&
					i != fmt.Sprint(next) && next < n {
					t.Fatalf("%s comes at %d", i, next)
				}
				if e.data != "" {
					next++
				}
				if left--; left < 0 {
					break
				}
			}
			r.Body.Close()
		}
		if next != n+1 {
			t.Fatalf("%d events", next)
		}
	}
	f.wants(410, "", "GET", "", session, "Last-Event-ID: 99999-1")
	f.wants(410, "", "GET", "", session, "Last-Event-ID: garbage")
}

// The standing stream has what belongs to no request, whoever connects to it last; questions go to the stream
// of the call.
func TestStandingStream(t *testing.T) {
	t.Parallel()
	f := serve(t, Options{})
	session := f.open()
	first := f.do("GET", "", session)
	var got []event
	for e := range events(first.Body) {
		if got = append(got, e); len(got) == 2 {
			break
		}
	}
	name, _, _ := strings.Cut(got[0].id, "-")
	if want := (event{name + "-1", `{"jsonrpc":"2.0","method":"opened"}`}); name[0] != '0' ||
		got[0] != (event{id: name + "-0"}) || got[1] != want {
		t.Errorf("%q", got)
	}
	second := f.do("GET", "", session, "Last-Event-ID: "+got[0].id)
	for e := range events(second.Body) {
		if e.id == got[1].id {
			break
		}
	}
	_, _ = io.Copy(io.Discard, first.Body) // it ends
	r := f.do("POST", `{"jsonrpc":"2.0","id":"a","method":"ask"}`, session)
	for e := range events(r.Body) {
		switch {
		case e.data == "":
		case rawjson.StringMember([]byte(e.data), "method") == "elicitation/create":
			f.wants(202, "", "POST", `{"jsonrpc":"2.0","id":1,"result":{"action":"accept"}}`, session)
		case e.data != `{"jsonrpc":"2.0","id":"a","result":"accept"}`:
			t.Error(e.data)
		}
	}
	f.wants(204, "", "DELETE", "", session)
	if _, err := io.ReadAll(second.Body); err != nil {
		t.Error(err)
	}
}

// No session begins that nobody would end.
func TestOpenAfterStop(t *testing.T) {
	t.Parallel()
	f := serve(t, Options{})
	f.Stop()
	if _, err := f.Server.open(t.Context(), "local"); err == nil ||
		!strings.Contains(err.Error(), "shutting down") {
		t.Error(err)
	}
}

// Sessions and streams count while they are open.
func TestOpen(t *testing.T) {
	t.Parallel()
	f := serve(t, Options{})
	wants := func(sessions, streams int) {
		t.Helper()
		// A connection that closes is seen a moment later.
		for deadline := time.Now().Add(watchdog); ; time.Sleep(time.Millisecond) {
			if s, n := f.Open(); s == sessions && n == streams {
				return
			} else if time.Now().After(deadline) {
				t.Fatalf("%d sessions, %d streams; want %d and %d", s, n, sessions, streams)
			}
		}
	}
	wants(0, 0)
	session := f.open()
	first := f.do("GET", "", session)
	wants(1, 1)
	second := f.do("POST", `{"jsonrpc":"2.0","id":5,"method":"wait"}`, session)
	wants(1, 2)
	second.Body.Close()
	wants(1, 1)
	first.Body.Close()
	wants(1, 0)
	f.wants(http.StatusNoContent, "", "DELETE", "", session)
	wants(0, 0)
}

// A client that does not read holds up its own call alone, and gets all of it when it reads.
func TestSlowClient(t *testing.T) {
	t.Parallel()
	f := serve(t, Options{})
	header := f.open()
	const n, size = 2000, 10_000
	r := f.do("POST", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"count","params":{"n":%d,"size":%d}}`, n,
		size), header)
	var c *session
	f.mu.Lock()
	for _, c = range f.sessions {
	}
	f.mu.Unlock()
	full := func() int {
		c.mu.Lock()
		defer c.mu.Unlock()
		most := 0
		for _, e := range c.streams {
			e.mu.Lock()
			most = max(most, e.held)
			e.mu.Unlock()
		}
		return most
	}
	for deadline := time.Now().Add(watchdog); full() < maxWaiting; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nothing waits")
		}
	}
	f.wants(200, `"id":2`, "POST", `{"jsonrpc":"2.0","id":2,"method":"ping"}`, header)
	if most := full(); most > maxWaiting+maxKept+2*size {
		t.Errorf("%d bytes wait", most)
	}
	got := 0
	for e := range events(r.Body) {
		if e.data != "" {
			got++
		}
	}
	if got != n+1 {
		t.Errorf("%d events, want %d", got, n+1)
	}
}

func TestWhoMayComeIn(t *testing.T) {
	t.Parallel()
	const alice, bob = "alice-alice-alice-1", "bob-bob-bob-bob-bob-1"
	tokens, err := ReadTokens(strings.NewReader("# who\n\n" + alice + " alice\n" + bob + " bob\n"))
	if err != nil {
		t.Fatal(err)
	}
	f := serve(t, Options{Tokens: always(tokens), Origins: []string{"https://app.example.com"}})
	const asAlice, asBob = "Authorization: Bearer " + alice, "Authorization: bearer " + bob
	for _, token := range []string{"", "Authorization: Bearer " + alice + "x", "Authorization: Bearer ",
		"Authorization: Basic " + alice, "Authorization: " + alice} {
		r := f.do("POST", initialize, token)
		challenge := `Bearer realm="runnel"`
		if token == "Authorization: Bearer "+alice+"x" {
			challenge += `, error="invalid_token", error_description="send a bearer token that the server knows, as Authorization: Bearer TOKEN"`
		}
		if got := r.Header.Get("WWW-Authenticate"); r.StatusCode != 401 || got != challenge {
			t.Errorf("%q: %d %s", token, r.StatusCode, got)
		}
	}
	session := f.open(asAlice)
	ping := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	f.wants(200, "result", "POST", ping, session, asAlice)
	f.wants(404, "", "POST", ping, session, asBob) // foreign is not found
	f.wants(404, "", "DELETE", "", session, asBob)
	f.wants(404, "", "GET", "", session, asBob)
	for origin, status := range map[string]int{"http://localhost:6274": 200, "http://[::1]": 200,
		"https://app.example.com": 200, "https://evil.example.com": 403,
		"null": 403, "http://localhost.evil.com": 403, "https://app.example.com.evil.com": 403,
		"http://127.0.0.1.evil.com": 403} {
		f.wants(status, "", "POST", ping, session, asAlice, "Origin: "+origin)
	}
	for host, status := range map[string]int{"localhost": 200, "127.0.0.1:80": 200, "[::1]:1": 200,
		"evil.com": 403, "localhost.evil.com:80": 403, "10.0.0.1": 403} {
		f.wants(status, "", "POST", ping, session, asAlice, "Host: "+host)
	}
	// A browser asks before it sends what a page wants to send, and shows the page an answer that names its
	// origin.
	const app = "https://app.example.com"
	asked := f.do("OPTIONS", "", "Origin: "+app, "Access-Control-Request-Method: POST")
	if h := asked.Header; asked.StatusCode != 204 || h.Get("Access-Control-Allow-Origin") != app ||
		!strings.Contains(h.Get("Access-Control-Allow-Headers"), headers.Session) {
		t.Errorf("%v", asked)
	}
	for origin, allowed := range map[string]string{app: app, "http://localhost:6274": ""} {
		r := f.do("POST", ping, session, asAlice, "Origin: "+origin)
		if got := r.Header.Get("Access-Control-Allow-Origin"); r.StatusCode != 200 || got != allowed {
			t.Errorf("%s: %v", origin, r)
		}
	}
	f.wants(401, "", "OPTIONS", "", "Origin: http://localhost:6274")
	f.wants(401, "", "POST", ping, session, "Origin: "+app)
	f.wants(403, "", "OPTIONS", "", "Origin: https://evil.example.com")
	if text := f.log.String(); strings.Contains(text, alice) || strings.Contains(text, bob) ||
		!strings.Contains(text, `"owner":"alice"`) {
		t.Errorf("the log: %s", text)
	}
}

// A stream ends when the token of its client is taken out of the file, or belongs to another owner.
func TestRevokedStreams(t *testing.T) {
	t.Parallel()
	const alice = "alice-alice-alice-1"
	file := filepath.Join(t.TempDir(), "tokens")
	for _, without := range []string{"bob-bob-bob-bob-bob-1 bob", alice + " bob"} {
		write := func(text string) {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write(alice + " alice")
		tokens, err := NewFresh(zerolog.Nop(), func() (*Tokens, error) {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			return ReadTokens(bytes.NewReader(text))
		}, file)
		if err != nil {
			t.Fatal(err)
		}
		f := serve(t, Options{Tokens: tokens})
		session := f.open("Authorization: Bearer " + alice)
		count, h := era("count", `"n":1000000,"everyMs":20,`)
		both := []*http.Response{
			f.do("POST", count, append(h, "Authorization: Bearer "+alice)...),
			f.do("POST", `{"jsonrpc":"2.0","id":1,"method":"count","params":{"n":1000000,"everyMs":20}}`,
				session, "Authorization: Bearer "+alice),
		}
		write(without)
		for _, r := range both {
			if text, err := io.ReadAll(r.Body); err != nil || strings.Contains(string(text), `"result"`) {
				t.Errorf("%v %q", err, text)
			}
		}
	}
}

// A stream that can be resumed says at its beginning when to come back.
func TestRetry(t *testing.T) {
	t.Parallel()
	f := serve(t, Options{})
	session := f.open()
	for range 2 {
		f.wants(200, "retry: 1000\nid: ", "POST",
			`{"jsonrpc":"2.0","id":1,"method":"count","params":{"n":3}}`, session)
	}
}

// What is wrong with a request's headers is refused before its body is read, and a client that must wait is
// told how long.
func TestRefusedHeaders(t *testing.T) {
	t.Parallel()
	f := serve(t, Options{})
	session, other := f.open(), f.open()
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	for range 2 {
		f.wants(400, "Mcp-Session-Id is there twice", "POST", ping, session, "+"+other)
		f.wants(400, "Mcp-Session-Id is there twice", "GET", "", session, "+"+other)
		f.wants(400, "Mcp-Session-Id is there twice", "DELETE", "", session, "+"+other)
		f.wants(400, "not ASCII", "POST", ping, session, "Mcp-Name: h\xc3\xa9")
		f.wants(400, "not ASCII", "POST", ping, session, "Mcp-Param-X: h\xe9")
		c, err := net.Dial("tcp", f.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintf(c, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", f.o.MaxLine+1)
		if r, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || r.StatusCode != 413 {
			t.Errorf("%v %v", r, err)
		}
	}
	f.wants(200, "result", "POST", ping, session)
	f.Stop()
	if r := f.do("POST", ping, session); r.StatusCode != 503 || r.Header.Get("Retry-After") == "" {
		t.Errorf("%v", r)
	}
}

// always says one thing.
func always[T any](v T) *Fresh[T] {
	f, _ := NewFresh(zerolog.Nop(), func() (T, error) { return v, nil }) // no file can be missing
	return f
}

func TestTokens(t *testing.T) {
	t.Parallel()
	const good = "0123456789abcdef"
	for text, problem := range map[string]string{"": "no token", "# x": "no token", good: "line 1",
		"short a": "line 1", good + " a b": "line 1",
		good + " a\n" + good + " b": "line 2"} {
		if _, err := ReadTokens(strings.NewReader(text)); err == nil ||
			!strings.Contains(err.Error(), problem) || strings.Contains(err.Error(), good) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A peer that sends its request slowly, or one that is too long, is hung up on; what is too many at once is
// refused.
func TestBounds(t *testing.T) {
	t.Parallel()
	f := serve(t, Options{})
	session := f.open()
	c, err := net.Dial("tcp", f.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	go fmt.Fprintf(c, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nX: %s\r\n\r\n",
		strings.Repeat("x", 2*maxHeader))
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || r.StatusCode != 431 {
		t.Errorf("%v %v", r, err)
	}
	var waits sync.WaitGroup
	defer waits.Wait()
	for i := range f.o.MaxInFlight {
		waits.Go(func() {
			_, _ = io.Copy(io.Discard, f.do("POST",
				fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"wait"}`, i), session).Body)
		})
		<-f.waiting
	}
	f.wants(503, "the limit is 16", "POST", `{"jsonrpc":"2.0","id":99,"method":"ping"}`, session)
	f.wants(204, "", "DELETE", "", session) // ends them
}

// Streams and requests that wait are not requests in flight: as many as a client has of them, its other
// requests are answered. They have a limit of their own.
func TestWaitsAreApart(t *testing.T) {
	t.Parallel()
	f := serve(t, Options{MaxInFlight: 4})
	session := f.open()
	listen, headers := era("subscriptions/listen", "")
	var ends sync.WaitGroup
	defer ends.Wait()
	for i := range 20 {
		ends.Go(func() { _, _ = io.Copy(io.Discard, f.do("POST", listen, headers...).Body) })
		ends.Go(func() {
			_, _ = io.Copy(io.Discard, f.do("POST",
				fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tasks/result"}`, i), session).Body)
		})
		<-f.waiting
		<-f.waiting
	}
	for range 2 {
		f.wants(200, "echo", "POST", `{"jsonrpc":"2.0","id":"e","method":"tools/call","params":{"echo":1}}`,
			session)
	}
	f.mu.Lock()
	if n := f.Server.waiting["local"]; n != 40 {
		t.Errorf("%d wait", n)
	}
	f.Server.waiting["local"] = maxWaits
	f.mu.Unlock()
	f.wants(503, fmt.Sprint("the limit is ", maxWaits), "POST", listen, headers...)
	f.wants(503, fmt.Sprint("the limit is ", maxWaits), "GET", "", session)
	f.mu.Lock()
	f.Server.waiting["local"], f.Server.waiting["others"] = 40, maxWaitsInAll
	f.mu.Unlock()
	f.wants(503, fmt.Sprint("the limit for all clients is ", maxWaitsInAll), "POST", listen, headers...)
	f.mu.Lock()
	delete(f.Server.waiting, "others")
	f.mu.Unlock()
	f.Stop()
}

// The messages that clients leave unread, or might resume, are bounded for all clients together.
func TestHeldInAll(t *testing.T) {
	t.Parallel()
	f := serve(t, Options{})
	line := bytes.Repeat([]byte("x"), 1<<20)
	for i := range 2 * maxKeptInAll >> 20 {
		c, err := f.Server.open(t.Context(), "local")
		if err != nil {
			t.Fatal(err)
		}
		e := c.stream("")
		from := e.begin()
		if _, err = c.Take([]byte(initialize), newStream("", nil)); err != nil {
			t.Fatal(err)
		}
		if e.Exchange, err = c.Take([]byte(`{"jsonrpc":"2.0","id":1,"method":"ping"}`),
			newStream("", nil)); err != nil {
			t.Fatal(err)
		}
		if err = e.WriteLines(t.Context(), line, true); err != nil {
			t.Fatal(err)
		}
		whole := i%2 == 0
		if whole {
			from.sentMore(1)
		}
		c.disconnected(from, whole, true)
	}
	if held := f.kept.Load(); held > maxKeptInAll+2<<20 || held < maxKeptInAll/2 {
		t.Errorf("%d bytes are held", held)
	}
}

// A request that does not come whole holds its connection for a while only, be it refused or not.
func TestSlowRequests(t *testing.T) {
	t.Parallel()
	s, err := Listen(t.Context(), "127.0.0.1:0", Options{Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	s.http.ReadTimeout /= 300
	var served sync.WaitGroup
	served.Go(func() { _ = s.Serve() })
	t.Cleanup(func() { s.Close(); served.Wait() })
	for _, start := range []string{"POST /mcp HTTP/1.1\r\nHost: evil.example.com",
		"GET /healthz HTTP/1.1\r\nHost: localhost"} {
		c, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		fmt.Fprint(c, start+"\r\nContent-Length: 1000\r\n\r\n{")
		if text, err := io.ReadAll(c); err != nil {
			t.Errorf("%s: %q %v", start, text, err)
		}
	}
}

// At the end what is in flight is answered, streams end, and nothing more is taken.
func TestStop(t *testing.T) {
	t.Parallel()
	f := serve(t, Options{})
	session := f.open()
	standing := f.do("GET", "", session)
	answered := make(chan string)
	go func() {
		text, _ := io.ReadAll(f.do("POST", `{"jsonrpc":"2.0","id":1,"method":"wait"}`, session).Body)
		answered <- string(text)
	}()
	<-f.waiting
	f.Stop()
	if err := <-f.cancelled; err != rpc.ErrShutdown {
		t.Error(err)
	}
	f.wants(503, "shutting down", "POST", initialize)
	f.Close()
	if text := <-answered; !strings.Contains(text, "server is shutting down") {
		t.Errorf("%q", text)
	}
	if _, err := io.ReadAll(standing.Body); err != nil {
		t.Error(err)
	}
}
