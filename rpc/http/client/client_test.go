package httpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"runnel/rpc"
	"runnel/rpc/mcp"
)

// watchdog is far longer than anything here takes.
const watchdog = 2 * time.Minute

const secret = "s3cr3t-s3cr3t"

// fake is a server as a test wants it. It notes what came.
type fake struct {
	*httptest.Server
	mu   sync.Mutex
	came []*http.Request
}

type message struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
}

// newFake serves: initialize of the handshake era is answered with a session unless handle says something
// itself.
func newFake(t *testing.T, handle func(w http.ResponseWriter, r *http.Request, m *message) (handled bool)) *fake {
	f := &fake{}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m message
		body, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(body, &m)
		f.mu.Lock()
		f.came = append(f.came, r)
		f.mu.Unlock()
		switch {
		case handle(w, r, &m):
		case r.Method == http.MethodGet:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case m.Method == "initialize":
			w.Header().Set("Mcp-Session-Id", "one")
			answer(w, &m, `{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"fake","version":"1"}}`)
		case m.Method == "server/discover":
			answer(w, &m, `{"supportedVersions":["2026-07-28"],"capabilities":{},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"fake","version":"1"}}}`)
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	t.Cleanup(f.Close)
	return f
}

func answer(w http.ResponseWriter, m *message, result string) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, "{\n\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\r\n", m.ID, result)
}

// events begins a stream of events.
func events(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	_, _ = io.WriteString(w, text)
	w.(http.Flusher).Flush()
}

func response(m *message, result string) string {
	return fmt.Sprintf("event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\ndata: \"result\":%s}\n\n", m.ID, result)
}

// cut ends the connection in the middle.
func cut() { panic(http.ErrAbortHandler) }

func (f *fake) options() Options {
	return Options{URL: f.URL + "/mcp?key=" + secret, Header: http.Header{"authorization": {"Bearer " + secret}}}
}

func dial(t *testing.T, o Options, d rpc.DialOptions) (*rpc.Client, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), watchdog)
	defer cancel()
	c, err := Dial(ctx, o, d)
	if err != nil && strings.Contains(err.Error(), secret) {
		t.Errorf("the error has what is secret: %v", err)
	}
	if err == nil {
		t.Cleanup(func() { _ = c.Close() })
	}
	return c, err
}

func mustDial(t *testing.T, o Options, d rpc.DialOptions) *rpc.Client {
	t.Helper()
	c, err := dial(t, o, d)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func call(t *testing.T, c *rpc.Client, method string, params any) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), watchdog)
	defer cancel()
	raw, err := c.Do(ctx, &rpc.Request{Method: method, Params: params})
	return string(raw), err
}

// Every request of a session names it and its version, with the user's headers, until DELETE.
func TestSession(t *testing.T) {
	f := newFake(t, func(w http.ResponseWriter, r *http.Request, m *message) bool {
		if m.Method == "tools/list" {
			answer(w, m, `{"tools":[]}`)
		}
		return m.Method == "tools/list"
	})
	c := mustDial(t, f.options(), rpc.DialOptions{})
	if got, err := call(t, c, "tools/list", nil); err != nil || got != `{"tools":[]}` {
		t.Errorf("%s, %v", got, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for n, r := range f.came {
		session, version := "one", "2025-11-25"
		if n == 0 {
			session, version = "", ""
		}
		if h := r.Header; h.Get("Mcp-Session-Id") != session || h.Get("Mcp-Protocol-Version") != version || h.Get("Authorization") != "Bearer "+secret {
			t.Errorf("request %d, %s: %v", n, r.Method, h)
		}
	}
	if last := f.came[len(f.came)-1]; last.Method != http.MethodDelete {
		t.Errorf("%s is the last of %d requests", last.Method, len(f.came))
	}
}

// Requests of 2026-07-28 say in headers what their bodies say, as the schema of a tool asks, too. A tool
// whose schema cannot be obeyed is left out.
func TestHeadersOfStatelessEra(t *testing.T) {
	var called http.Header
	f := newFake(t, func(w http.ResponseWriter, r *http.Request, m *message) bool {
		switch m.Method {
		case "tools/list":
			answer(w, m, `{"tools":[{"name":"run ü","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"},
				"deep":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"Number"}}},"no":{"type":"boolean","x-mcp-header":"No"},"nil":{"type":"string","x-mcp-header":"Nil"}}}},
				{"name":"bad","inputSchema":{"type":"object","properties":{"list":{"type":"array","items":{"type":"string","x-mcp-header":"X"}}}}},
				{"name":"plain","inputSchema":{"type":"object"}}]}`)
		case "tools/call":
			called = r.Header
			events(w, ":\n\n"+response(m, `{"content":[]}`))
		case "initialize":
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"method not found"}}`)
		default:
			return false
		}
		return true
	})
	c := mustDial(t, f.options(), rpc.DialOptions{})
	if c.Era() != rpc.Stateless {
		t.Fatal(c.Version().Name)
	}
	list, err := call(t, c, "tools/list", nil)
	if err != nil || strings.Contains(list, "bad") || !strings.Contains(list, "plain") {
		t.Errorf("%s, %v", list, err)
	}
	if _, err := call(t, c, "tools/call", map[string]any{"name": "run ü", "arguments": map[string]any{"region": " up ", "deep": map[string]any{"n": 7}, "no": false, "nil": nil}}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"Mcp-Method": "tools/call", "Mcp-Name": "=?base64?cnVuIMO8?=", "Mcp-Protocol-Version": "2026-07-28",
		"Mcp-Param-Region": "=?base64?IHVwIA==?=", "Mcp-Param-Number": "7", "Mcp-Param-No": "false", "Mcp-Param-Nil": "", "Mcp-Session-Id": "",
	} {
		if got := called.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// A stream that is lost goes on after its last whole event, when the server has said, and a call is made
// once.
func TestResume(t *testing.T) {
	var calls, resumes int
	var lost time.Time
	const retry = 300
	f := newFake(t, func(w http.ResponseWriter, r *http.Request, m *message) bool {
		switch id := r.Header.Get("Last-Event-ID"); {
		case m.Method == "tools/call":
			calls++
			events(w, fmt.Sprintf("id: a-0\nretry: %d\ndata: \n\nid: a-1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"one\"}\n\nid: a-2\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"two\"}\n", retry))
			lost = time.Now()
			cut()
		case id == "a-1":
			resumes++
			if waited := time.Since(lost); waited < retry*time.Millisecond {
				t.Errorf("back after %v", waited)
			}
			events(w, "id: a-2\r\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"two\"}\r\n\r\n") // and it ends without a response
		case id == "a-2":
			resumes++
			events(w, "id: a-3\n"+response(&message{ID: json.RawMessage("2")}, `{"n":1}`))
		default:
			return false
		}
		return true
	})
	var got []string
	c := mustDial(t, f.options(), rpc.DialOptions{OnNotification: func(method string, _ json.RawMessage) { got = append(got, method) }})
	raw, err := call(t, c, "tools/call", map[string]string{"name": "x"})
	if err != nil || raw != `{"n":1}` || strings.Join(got, " ") != "one two" || calls != 1 || resumes != 2 {
		t.Errorf("%s, %v, %q, %d calls, %d resumes", raw, err, got, calls, resumes)
	}
}

// A request that cannot be resumed is made again, under another id, unless it runs a tool.
func TestAskedAgain(t *testing.T) {
	var mu sync.Mutex
	ids := map[string]bool{}
	f := newFake(t, func(w http.ResponseWriter, _ *http.Request, m *message) bool {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case m.Method == "tools/call", m.Method == "tools/list" && len(ids) < 2:
			ids[string(m.ID)] = true
			cut()
		case m.Method == "tools/list":
			answer(w, m, `{"tools":[]}`)
		default:
			return false
		}
		return true
	})
	c := mustDial(t, f.options(), rpc.DialOptions{})
	list, err := call(t, c, "tools/list", nil)
	_, failed := call(t, c, "tools/call", map[string]string{"name": "x"})
	mu.Lock()
	defer mu.Unlock()
	if err != nil || list != `{"tools":[]}` || failed == nil || len(ids) != 3 {
		t.Errorf("%s, %v, %v, ids %v", list, err, failed, ids)
	}
}

// A session that the server has ended ends the connection; the next one begins with a new initialize.
func TestSessionEnds(t *testing.T) {
	f := newFake(t, func(w http.ResponseWriter, r *http.Request, m *message) bool {
		if m.Method == "tools/list" {
			w.WriteHeader(http.StatusNotFound)
		}
		return m.Method == "tools/list"
	})
	for range 2 {
		c := mustDial(t, f.options(), rpc.DialOptions{})
		_, err := call(t, c, "tools/list", nil)
		if wire, ok := errors.AsType[*rpc.Error](err); !ok || wire.Code != mcp.CodeSessionEnded || !strings.Contains(err.Error(), "the server has ended the session") || strings.Contains(err.Error(), secret) {
			t.Error(err)
		}
		<-c.Context().Done()
		if _, err := call(t, c, "tools/list", nil); !errors.Is(err, rpc.ErrClosed) {
			t.Errorf("afterwards: %v", err)
		}
	}
}

// A request of 2026-07-28 is cancelled by closing its stream, one of before by a notification that comes
// after it.
func TestCancel(t *testing.T) {
	for _, version := range []string{"2026-07-28", "2025-11-25"} {
		t.Run(version, func(t *testing.T) {
			began, ended := make(chan bool, 1), make(chan string, 2)
			f := newFake(t, func(w http.ResponseWriter, r *http.Request, m *message) bool {
				switch m.Method {
				case "tools/call":
					events(w, ":\n\n")
					began <- true
					<-r.Context().Done()
					ended <- "closed"
				case "notifications/cancelled":
					ended <- "told"
				}
				return m.Method == "tools/call"
			})
			c := mustDial(t, f.options(), rpc.DialOptions{Version: version})
			ctx, cancel := context.WithTimeout(t.Context(), watchdog)
			go func() {
				<-began
				cancel()
			}()
			_, err := c.Do(ctx, &rpc.Request{Method: "tools/call", Params: map[string]string{"name": "x"}})
			if want := map[string]string{"2026-07-28": "closed", "2025-11-25": "told"}[version]; !errors.Is(err, context.Canceled) || <-ended != want {
				t.Errorf("%v, want %s", err, want)
			}
			_ = c.Close()
		})
	}
}

// Requests of the server and what answers them pass on the standing stream, which is opened again when it
// ends.
func TestStandingStream(t *testing.T) {
	answered := make(chan string, 2)
	opened := 0
	f := newFake(t, func(w http.ResponseWriter, r *http.Request, m *message) bool {
		switch {
		case r.Method == http.MethodGet:
			if opened++; opened > 2 {
				events(w, "")
				<-r.Context().Done()
				return true
			}
			events(w, fmt.Sprintf("data: {\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"roots/list\"}\n\n", opened))
		case r.Method == http.MethodPost && m.Method == "" && m.ID != nil:
			answered <- string(m.ID)
			return false
		default:
			return false
		}
		return true
	})
	c := mustDial(t, f.options(), rpc.DialOptions{OnRequest: func(context.Context, string, json.RawMessage) (any, error) {
		return map[string]any{"roots": []any{}}, nil
	}})
	for _, want := range []string{"1", "2"} {
		select {
		case id := <-answered:
			if id != want {
				t.Errorf("answer to %s, want %s", id, want)
			}
		case <-time.After(watchdog):
			t.Fatal("no answer")
		}
	}
	_ = c.Close()
}

// The first request waits for the standing stream: many servers lose what they send there before it is open.
func TestStandingStreamOpensFirst(t *testing.T) {
	asked, open := make(chan bool, 1), atomic.Bool{}
	f := newFake(t, func(w http.ResponseWriter, r *http.Request, m *message) bool {
		switch {
		case r.Method == http.MethodGet:
			select { // a server far away
			case <-asked:
			case <-time.After(standingPatience / 5):
			}
			open.Store(true)
			events(w, "")
			<-r.Context().Done()
		case m.Method == "tools/list":
			if !open.Load() {
				t.Error("the request has overtaken the stream")
			}
			asked <- true
			answer(w, m, `{"tools":[]}`)
		default:
			return false
		}
		return true
	})
	c := mustDial(t, f.options(), rpc.DialOptions{})
	if _, err := call(t, c, "tools/list", nil); err != nil {
		t.Error(err)
	}
	_ = c.Close()
}

// A standing stream that cannot be resumed begins anew.
func TestStandingStreamIsForgotten(t *testing.T) {
	opened := make(chan string, 10)
	f := newFake(t, func(w http.ResponseWriter, r *http.Request, _ *message) bool {
		if r.Method != http.MethodGet {
			return false
		}
		last := r.Header.Get("Last-Event-ID")
		switch len(opened) {
		case 0:
			events(w, "id: x\ndata:\n\n")
		case 1:
			w.WriteHeader(http.StatusConflict)
		case 2:
			w.WriteHeader(http.StatusGone)
		default:
			events(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"again\"}\n\n")
			opened <- last
			<-r.Context().Done()
			return true
		}
		opened <- last
		return true
	})
	got := make(chan string, 1)
	c := mustDial(t, f.options(), rpc.DialOptions{OnNotification: func(method string, _ json.RawMessage) { got <- method }})
	select {
	case <-got:
	case <-time.After(watchdog):
		t.Fatal("nothing came")
	}
	for _, want := range []string{"", "x", "x", ""} {
		if last := <-opened; last != want {
			t.Errorf("Last-Event-ID %q, want %q", last, want)
		}
	}
	_ = c.Close()
}

// A server that refuses the standing stream, be it not with 405, answers nevertheless.
func TestNoStandingStream(t *testing.T) {
	for _, status := range []int{401, 403, 404, 405, 500, 501} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			asked := make(chan bool, 100)
			f := newFake(t, func(w http.ResponseWriter, r *http.Request, m *message) bool {
				switch {
				case r.Method == http.MethodGet:
					w.WriteHeader(status)
					asked <- true
				case m.Method == "tools/list":
					time.Sleep(100 * time.Millisecond) // by now the refusal has been read
					answer(w, m, `{"tools":[]}`)
				default:
					return false
				}
				return true
			})
			c := mustDial(t, f.options(), rpc.DialOptions{})
			<-asked
			if _, err := call(t, c, "tools/list", nil); err != nil || len(asked) > 0 {
				t.Errorf("%v, asked for %d times more", err, len(asked))
			}
		})
	}
}

// A server's answer that cannot be used is reported, with what to do.
func TestRefusals(t *testing.T) {
	elsewhere := newFake(t, func(http.ResponseWriter, *http.Request, *message) bool {
		t.Error("a request, with its headers, went where it was redirected to")
		return false
	})
	for name, c := range map[string]struct {
		handle http.HandlerFunc
		want   string
	}{
		"token": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no "+secret, http.StatusUnauthorized) }, "401 Unauthorized. Send it a token"},
		"token named": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(403)
			fmt.Fprintf(w, `{"error":{"message":"not %s"}}`, secret)
		}, "403 Forbidden: not [hidden]"},
		"down": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }, "503 Service Unavailable"},
		"elsewhere": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		}, "it redirects to " + elsewhere.URL + ", where your headers might not be meant to go"},
		"lossy": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/other", http.StatusFound) }, "it redirects to /other in a way that loses the message"},
		"for ever": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/mcp", http.StatusTemporaryRedirect)
		}, "it redirects too often"},
		"a page": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }, "the server's answer is not an MCP response: 200 OK, \"text/html\""},
		"not JSON": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, "{]")
		}, "is not JSON"},
		"too long": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, strings.Repeat(" ", 2<<10))
		}, "too long: the limit is 1024 bytes"},
		"long event": {func(w http.ResponseWriter, _ *http.Request) { events(w, "data: "+strings.Repeat("x", 2<<10)+"\n\n") }, "too long: the limit is 1024 bytes"},
		"long events": {func(w http.ResponseWriter, _ *http.Request) {
			events(w, strings.Repeat("data: "+strings.Repeat("x", 100)+"\n", 20)+"\n")
		}, "too long: the limit is 1024 bytes"},
		"HTTP+SSE": {func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				events(w, "event: endpoint\ndata: /messages\n\n")
				return
			}
			w.WriteHeader(http.StatusMethodNotAllowed)
		}, "the server speaks HTTP+SSE of 2024-11-05, which runnel does not"},
		"nothing there": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }, "404 Not Found"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, func(w http.ResponseWriter, r *http.Request, _ *message) bool { c.handle(w, r); return true })
			o := f.options()
			o.MaxLine = 1 << 10
			_, err := dial(t, o, rpc.DialOptions{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v\nwant %s", err, c.want)
			}
		})
	}
	closed := httptest.NewServer(nil)
	closed.Close()
	if _, err := dial(t, Options{URL: closed.URL}, rpc.DialOptions{}); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Error(err)
	}
	inURL, err := NewOptions(closed.URL+"/${KEY}", nil, func(string) string { return secret }, zerolog.Nop())
	if _, failed := dial(t, inURL, rpc.DialOptions{}); err != nil || inURL.URL != closed.URL+"/"+secret || failed == nil {
		t.Error(inURL.URL, err, failed)
	}
	tls := httptest.NewTLSServer(nil)
	t.Cleanup(tls.Close)
	if _, err := dial(t, Options{URL: tls.URL}, rpc.DialOptions{}); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Error(err)
	}
	for _, o := range []Options{{URL: "ftp://x"}, {URL: "x"}, {URL: "https://x", Header: http.Header{"a b": {"c"}}}, {URL: "https://x", Header: http.Header{"a": {"b\nc"}}}, {URL: "https://x", Header: http.Header{"mcp-session-id": {"x"}}}} {
		if _, err := Open(o); err == nil {
			t.Errorf("%v is taken", o)
		}
	}
}

// A URL that lacks its /mcp is not corrected without a word: the error says whether the server answers there.
// Its own 404 is no reason to look.
func TestURLWithoutItsPath(t *testing.T) {
	f := newFake(t, func(w http.ResponseWriter, r *http.Request, m *message) bool {
		switch r.URL.Path {
		case "/mcp":
			return false
		case "/strange":
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(404)
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no %s"}}`, m.ID, m.Method)
		case "/site":
			w.WriteHeader(405)
		case "/runnel":
			w.WriteHeader(404)
			fmt.Fprint(w, `{"jsonrpc":"2.0","error":{"code":-32600,"message":"nothing is here"}}`)
		default:
			w.WriteHeader(404)
		}
		return true
	})
	for url, want := range map[string]string{
		f.URL:                f.URL + ": 404 Not Found. The URL of an MCP server often ends in /mcp, and this server answers at " + f.URL + "/mcp: use that URL",
		f.URL + "/?key=x":    "answers at " + f.URL + "/mcp: use that URL",
		f.URL + "/site":      f.URL + "/site: 405 Method Not Allowed. The URL of an MCP server often ends in /mcp",
		f.URL + "/runnel":    f.URL + "/runnel: 404 Not Found: nothing is here. The URL of an MCP server often ends in /mcp",
		f.URL + "/other":     f.URL + "/other: 404 Not Found. The URL of an MCP server often ends in /mcp",
		f.URL + "/other/mcp": f.URL + "/other/mcp: 404 Not Found",
		f.URL + "/strange":   "no initialize (code -32601)",
	} {
		_, err := Dial(t.Context(), Options{URL: url, Header: http.Header{"Authorization": {"Bearer " + secret}}}, rpc.DialOptions{})
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v\nwant %s", url, err, want)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	came := map[string][]string{}
	for _, r := range f.came {
		came[r.URL.Path] = append(came[r.URL.Path], r.Method)
	}
	closed := slices.Contains(came["/mcp"], http.MethodDelete)
	if !closed || came["/strange/mcp"] != nil || came["/other/mcp/mcp"] != nil {
		t.Errorf("a session that was opened only to look stays, or a path was looked at in vain: %v", came)
	}
}

// A server that says where it was asked does not show the secret that a variable has put into the URL.
func TestSecretInTheURL(t *testing.T) {
	f := newFake(t, func(w http.ResponseWriter, r *http.Request, _ *message) bool {
		http.Redirect(w, r, r.URL.Path+"/", http.StatusMovedPermanently) // which turns a POST into a GET
		return true
	})
	o, err := NewOptions(f.URL+"/${KEY}", nil, func(string) string { return secret }, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dial(t, o, rpc.DialOptions{}); err == nil || !strings.Contains(err.Error(), f.URL+"/${KEY}: it redirects to /[hidden]/ in a way") {
		t.Error(err) // dial looks for the secret itself
	}
}

// A server's own redirect is followed with all that it needs.
func TestRedirectOnTheServer(t *testing.T) {
	f := newFake(t, func(w http.ResponseWriter, r *http.Request, _ *message) bool {
		if r.URL.Path == "/mcp" {
			http.Redirect(w, r, "/mcp/", http.StatusPermanentRedirect)
		}
		return r.URL.Path == "/mcp"
	})
	if c := mustDial(t, f.options(), rpc.DialOptions{}); c.Server().Name != "fake" || c.Version() != mcp.NewestHandshake() {
		t.Errorf("%v, %s", c.Server(), c.Version().Name)
	}
}

// Lines that a host sends without waiting for the answer to initialize go out with the session of that
// answer.
func TestLinesAfterInitialize(t *testing.T) {
	f := newFake(t, func(w http.ResponseWriter, r *http.Request, m *message) bool {
		switch {
		case m.Method == "initialize":
			time.Sleep(50 * time.Millisecond) // so that whoever does not wait is early
		case r.Header.Get("Mcp-Session-Id") != "one" || r.Header.Get("Mcp-Protocol-Version") != "2025-11-25":
			t.Errorf("%s %s: %v", r.Method, m.Method, r.Header)
		}
		return false
	})
	tr, err := Open(f.options())
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, tr) }()
	if _, err := io.WriteString(tr, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`+"\n"+`{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"); err != nil {
		t.Error(err)
	}
	_ = tr.Close()
}

// A host whose session passes through gets its answers before the end.
func TestFinish(t *testing.T) {
	f := newFake(t, func(w http.ResponseWriter, r *http.Request, m *message) bool { return false })
	tr, err := Open(f.options())
	if err != nil {
		t.Fatal(err)
	}
	for _, piece := range []string{`{"jsonrpc":"2.0","id":"é","meth`, `od":"initialize","params":{}}` + "\n\n"} {
		if _, err := io.WriteString(tr, piece); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan string)
	go func() {
		all, _ := io.ReadAll(tr)
		done <- string(all)
	}()
	ctx, cancel := context.WithTimeout(t.Context(), watchdog)
	defer cancel()
	tr.Finish(ctx)
	_ = tr.Close()
	if got := <-done; !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":"é","result":{`) || strings.Count(got, "\n") != 1 {
		t.Error(got)
	}
}

// A host gets the error for its request back under its own id, even one that no MCP client uses: it would
// wait for ever.
func TestFinishWithAnyID(t *testing.T) {
	f := newFake(t, func(http.ResponseWriter, *http.Request, *message) bool { return false }) // 202 for a call
	tr, err := Open(f.options())
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan string)
	go func() {
		all, _ := io.ReadAll(tr)
		done <- string(all)
	}()
	if _, err := io.WriteString(tr, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}`+"\n"+`{"jsonrpc":"2.0","id":1.5,"method":"tools/call"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), watchdog)
	defer cancel()
	tr.Finish(ctx)
	_ = tr.Close()
	if got := <-done; !strings.Contains(got, "not an MCP response") || !strings.Contains(got, `"id":1.5`) {
		t.Error(got)
	}
}

// What is written when the server has refused the first line gets no answer, and nobody waits for one.
func TestFinishAfterARefusal(t *testing.T) {
	f := newFake(t, func(w http.ResponseWriter, _ *http.Request, _ *message) bool {
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	tr, err := Open(f.options())
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	_, err = io.WriteString(tr, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`+"\n"+`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`+"\n")
	ctx, cancel := context.WithTimeout(t.Context(), watchdog)
	defer cancel()
	if tr.Finish(ctx); err == nil || ctx.Err() != nil {
		t.Error(err, ctx.Err())
	}
}

// A server whose streams bring no answer is not asked without pause, nor is what is wrong with its events
// hidden.
func TestStreamsWithoutAnAnswer(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"not JSON":  {"data: {]\n\n", "is not JSON"},
		"no answer": {"data: {\"jsonrpc\":\"2.0\",\"method\":\"one\"}\n\n", ""},
		"priming":   {"id: x\ndata:\n\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int32
			f := newFake(t, func(w http.ResponseWriter, r *http.Request, m *message) bool {
				ours := m.Method == "tools/list" || r.Header.Get("Last-Event-ID") != ""
				if ours {
					asked.Add(1)
					events(w, c.text)
				}
				return ours
			})
			client := mustDial(t, f.options(), rpc.DialOptions{})
			ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
			defer cancel()
			_, err := client.Do(ctx, &rpc.Request{Method: "tools/list"})
			if n := asked.Load(); err == nil || !strings.Contains(err.Error(), c.want) || n > 6 {
				t.Errorf("%d times: %v", n, err)
			}
		})
	}
}

// An event that is not JSON does not keep the answer from coming.
func TestOddEvent(t *testing.T) {
	f := newFake(t, func(w http.ResponseWriter, _ *http.Request, m *message) bool {
		if m.Method == "tools/call" {
			events(w, "data: {]\n\n"+response(m, `{"n":1}`))
		}
		return m.Method == "tools/call"
	})
	c := mustDial(t, f.options(), rpc.DialOptions{})
	if got, err := call(t, c, "tools/call", map[string]string{"name": "x"}); err != nil || got != `{"n":1}` {
		t.Errorf("%s, %v", got, err)
	}
}

// A message on the standing stream that is too long ends the connection: what comes after it would be missed.
func TestStandingStreamTooLong(t *testing.T) {
	f := newFake(t, func(w http.ResponseWriter, r *http.Request, _ *message) bool {
		if r.Method == http.MethodGet {
			events(w, "data: "+strings.Repeat("x", 2<<10)+"\n\n")
		}
		return r.Method == http.MethodGet
	})
	o := f.options()
	o.MaxLine = 1 << 10
	c := mustDial(t, o, rpc.DialOptions{})
	select {
	case <-c.Context().Done():
		if err := c.Err(); !strings.Contains(err.Error(), "too long: the limit is 1024 bytes") {
			t.Error(err)
		}
	case <-time.After(watchdog):
		t.Error("the connection goes on")
	}
}

// A cancelled request of the handshake era, which gets no answer, does not keep its connection.
func TestCancelledStreamEnds(t *testing.T) {
	began, gone := make(chan bool, 1), make(chan bool)
	f := newFake(t, func(w http.ResponseWriter, r *http.Request, m *message) bool {
		if m.Method == "tools/call" {
			events(w, ":\n\n")
			began <- true
			<-r.Context().Done()
			close(gone)
		}
		return m.Method == "tools/call"
	})
	c := mustDial(t, f.options(), rpc.DialOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-began
		cancel()
	}()
	if _, err := c.Do(ctx, &rpc.Request{Method: "tools/call"}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	select {
	case <-gone:
	case <-time.After(watchdog):
		t.Error("it does")
	}
}

// A subscription outlives a server that is restarted behind a gateway.
func TestListenBehindAGateway(t *testing.T) {
	var asked atomic.Int32
	f := newFake(t, func(w http.ResponseWriter, _ *http.Request, m *message) bool {
		if m.Method != "subscriptions/listen" {
			return false
		}
		switch asked.Add(1) {
		case 1:
			events(w, ":\n\n")
			cut()
		case 2:
			w.WriteHeader(http.StatusBadGateway)
		default:
			answer(w, m, "{}")
		}
		return true
	})
	c := mustDial(t, f.options(), rpc.DialOptions{Version: "2026-07-28"})
	lost := 0
	if err := c.Listen(t.Context(), &rpc.Request{Method: "subscriptions/listen"}, func() { lost++ }); err != nil || lost != 1 {
		t.Errorf("%v, lost %d times", err, lost)
	}
}
