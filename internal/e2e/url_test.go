package e2e

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"runnel/internal/cli"
)

// Over HTTP the same comes out as from a server after "--", whatever the version and the way of the call.
func TestURLInEveryDialect(t *testing.T) {
	t.Parallel()
	s := serveHTTP(t, "--selftest", "--pace=0", "--immediate-wait=1ms", "--state", "memory")
	want := "chunk 000000 xx\nchunk 000001 xx\nchunk 000002 xx\nstreamed 3 chunks"
	for _, flags := range []string{
		"--protocol=2025-03-26", "--protocol=2025-06-18", "--protocol=2025-06-18 --no-task",
		"", "--no-task", "--task", "--mode=task", "--mode=streaming", "--protocol=2026-07-28",
		"--protocol=2026-07-28 --no-task",
	} {
		args := append([]string{"call", "stream", "count=3", "bytes=16", "--summary", "--url", s.url},
			strings.Fields(flags)...)
		got := runClient(t, "", args...)
		if got.code != exitFine || got.stdout != want || !strings.Contains(got.stderr, "gaps 0") ||
			!strings.Contains(got.stderr, "completed after") {
			t.Errorf("%q: exit code %d\n%q\n%s", args, got.code, got.stdout, got.stderr)
		}
	}
	for name, args := range map[string][]string{
		"wrong flag":   {"tools", "--url", s.url, "--header", "Authorization Bearer-" + s.url},
		"both":         {"tools", "--url", s.url, "--", "x"},
		"header alone": {"tools", "--header", "A: b"},
		"no variable":  {"tools", "--url", s.url, "--header", "A: ${RUNNEL_NOT_THERE}"},
		"no URL":       {"tools", "--url", "localhost:80"},
		"config":       {"tools", "--url", s.url, "--selftest"},
	} {
		if got := runClient(t, "", args...); got.code != exitUsage ||
			strings.Contains(got.stderr, "Bearer-") {
			t.Errorf("%s: exit code %d\n%s", name, got.code, got.stderr)
		}
	}
}

// cutter passes connections on to a server, and cuts all that there are.
type cutter struct {
	net.Listener
	to string

	mu   sync.Mutex
	open map[net.Conn]bool
}

func newCutter(t *testing.T, to *httpServer) *cutter {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{Listener: l, to: to.host(), open: map[net.Conn]bool{}}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { c.pass(from) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		c.cut()
		all.Wait()
	})
	return c
}

func (c *cutter) pass(from net.Conn) {
	c.mu.Lock()
	server := c.to
	c.mu.Unlock()
	to, err := net.Dial("tcp", server)
	if err != nil {
		_ = from.Close()
		return
	}
	c.mu.Lock()
	c.open[from], c.open[to] = true, true
	c.mu.Unlock()
	end := func() { _, _ = from.Close(), to.Close() }
	var both sync.WaitGroup
	both.Go(func() { defer end(); _, _ = io.Copy(to, from) })
	both.Go(func() { defer end(); _, _ = io.Copy(from, to) })
	both.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, from)
	delete(c.open, to)
}

func (s *httpServer) host() string {
	return strings.TrimSuffix(strings.TrimPrefix(s.url, "http://"), "/mcp")
}

func (c *cutter) url() string { return "http://" + c.Addr().String() + "/mcp" }

// cut cuts, what is under way is lost.
func (c *cutter) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for conn := range c.open {
		_ = conn.(*net.TCPConn).SetLinger(0)
		_ = conn.Close()
	}
}

// numbersOf is what the tool stream printed, each chunk cut to its number.
func numbersOf(out string) string {
	var numbers strings.Builder
	for line := range strings.Lines(out) {
		if len(line) > 12 && strings.HasPrefix(line, "chunk ") {
			line = line[:12] + "\n"
		}
		if line != "streamed 60 chunks" {
			numbers.WriteString(line)
		}
	}
	return numbers.String()
}

// sixty is numbersOf 60 chunks.
func sixty() string {
	var want strings.Builder
	for n := range 60 {
		fmt.Fprintf(&want, "chunk %06d\n", n)
	}
	return want.String()
}

// callAndCut calls stream, and cuts all connections at a random moment after its first output.
func callAndCut(t *testing.T, c *cutter, args ...string) {
	t.Helper()
	const interval = 3
	after := rand.N(60 * interval * time.Millisecond)
	out, stderr := &trigger{text: "chunk", do: func() { time.AfterFunc(after, c.cut) }}, &syncBuffer{}
	args = append([]string{"call", "stream", "count=60", fmt.Sprint("intervalMs=", interval), "--summary"},
		args...)
	code := cli.Run(t.Context(), args, append(environ(t), noConfig), strings.NewReader(""), out, stderr)
	if got := numbersOf(out.String()); code != exitFine || got != sixty() ||
		!strings.Contains(stderr.String(), "gaps 0") {
		t.Fatalf("cut after %v: exit code %d\n%s\n%s", after, code, got, stderr)
	}
}

// A call whose connections are cut at 200 random moments while its output streams has every chunk once, in
// each way that output can come.
func TestCutsOfAStream(t *testing.T) {
	t.Parallel()
	s := serveHTTP(t, "--selftest", "--pace=5ms", "--immediate-wait=1ms", "--state", "memory")
	for _, flags := range []string{"--task", "--no-task", "--mode=streaming", "--protocol=2026-07-28"} {
		t.Run(flags, func(t *testing.T) {
			t.Parallel()
			for range 50 {
				c := newCutter(t, s)
				callAndCut(t, c, "--url", c.url(), flags)
			}
		})
	}
}

// The same through runnel wrap --url.
func TestCutsOfAWrappedStream(t *testing.T) {
	t.Parallel()
	s := serveHTTP(t, "--selftest", "--pace=5ms", "--state", "memory")
	for range 10 {
		c := newCutter(t, s)
		callAndCut(t, c, "--", racedProgram(t), "wrap", "--url", c.url(), "--state", "memory", "--pace=5ms",
			"--log-level=warn")
	}
}

// A server at a URL is an upstream, with a token from the environment that shows nowhere. When it is another
// one, which knows nothing of the session, the next call begins a new one.
func TestUpstreamAtURL(t *testing.T) {
	t.Parallel()
	const token = "secret-secret-secret-1"
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte(token+" local\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	first, second := serveHTTP(t, "--selftest", "--state", "memory", "--http-token-file", file),
		serveHTTP(t, "--selftest", "--state", "memory", "--http-token-file", file)
	c := newCutter(t, first)
	config := writeConfig(t, fmt.Sprintf("upstreams: {far: {url: %q, headers: {Authorization: 'Bearer ${FAR_TOKEN}'}, prefix: far_}}", c.url()))
	cmd := racedCommand(t, append(config, "--state", stateDir(t), "--log-level", "debug")...)
	cmd.Env = append(cmd.Env, "FAR_TOKEN="+token)
	w := newWitness(t, cmd)
	echo := func() string {
		var r struct{ Content []struct{ Text string } }
		w.must(&r, "tools/call", map[string]any{"name": "far_echo",
			"arguments": map[string]any{"text": "hi"}})
		return r.Content[0].Text
	}
	if got := echo(); got != "hi" {
		t.Errorf("%q", got)
	}
	c.mu.Lock()
	c.to = second.host()
	c.mu.Unlock()
	c.cut()
	deadline := time.Now().Add(watchdog)
	for !strings.Contains(w.log.String(), "the server has ended the session") {
		if time.Now().After(deadline) {
			t.Fatalf("the end of the session is not seen\n%s", &w.log)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if got := echo(); got != "hi" {
		t.Errorf("%q", got)
	}
	if strings.Contains(w.log.String()+first.log.String(), token) {
		t.Errorf("the token is in a log\n%s", &w.log)
	}
}

// Trace and doctor reach a server at a URL. What they write has no headers.
func TestTraceAndDoctorAtURL(t *testing.T) {
	t.Parallel()
	const token = "secret-secret-secret-1"
	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(tokens, []byte(token+" local\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serveHTTP(t, "--selftest", "--state", "memory", "--http-token-file", tokens)
	file := filepath.Join(t.TempDir(), "trace")
	with := []string{"--url", s.url + "?key=" + token, "--header", "Authorization: Bearer " + token}
	got := runClient(t, initialize+"\n"+`{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"+
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hi"}}}`+
		"\n", append([]string{"trace", "--file", file}, with...)...)
	written, err := os.ReadFile(file)
	if err != nil || got.code != exitFine || !strings.Contains(got.stdout, `"text":"hi"`) ||
		!strings.Contains(string(written), "response to tools/call echo") ||
		strings.Contains(string(written), token) {
		t.Errorf("exit code %d, %v\n%s\n%s\n%s", got.code, err, got.stdout, got.stderr, written)
	}
	headers := filepath.Join(t.TempDir(), "headers")
	if err := os.WriteFile(headers, []byte("# mine\n\nauthorization: Bearer "+token+"\r\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	got = runClient(t, "", "doctor", "--url", s.url+"?key="+token, "--header-file", headers)
	if got.code != exitFine || !regexp.MustCompile(`(?s)ok     2025-11-25: runnel .*tools.*ok     2026-07-28: runnel `).MatchString(got.stdout) || strings.Contains(got.stdout+got.stderr, token) {
		t.Errorf("exit code %d\n%s\n%s", got.code, got.stdout, got.stderr)
	}
	got = runClient(t, "", "doctor", "--url", s.url)
	if got.code != exitFailure || !strings.Contains(got.stdout,
		"WRONG  2025-11-25: "+s.url+": 401 Unauthorized") {
		t.Errorf("exit code %d\n%s\n%s", got.code, got.stdout, got.stderr)
	}
	if err := os.WriteFile(headers, []byte("\nBearer "+token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got = runClient(t, "", "doctor", "--url", s.url, "--header-file", headers)
	if got.code != exitUsage || !strings.Contains(got.stderr,
		"--header-file "+headers+", line 2 has no colon: write 'NAME: VALUE'") ||
		strings.Contains(got.stderr, token) {
		t.Errorf("exit code %d\n%s\n%s", got.code, got.stdout, got.stderr)
	}
	config := writeConfig(t, fmt.Sprintf("upstreams: {far: {url: %q, headers: {Authorization: 'Bearer ${RUNNEL_NOT_THERE}'}}}", s.url))
	got = runClient(t, "", append([]string{"doctor", "--state", "memory"}, config...)...)
	if got.code != exitFailure || !strings.Contains(got.stdout,
		"WRONG  upstream far: the header Authorization needs the variable RUNNEL_NOT_THERE, which is not set") {
		t.Errorf("exit code %d\n%s\n%s", got.code, got.stdout, got.stderr)
	}
}

// The official SDKs' own servers work with runnel as their client: in both eras, with headers that a tool's
// schema asks for, and with connections that are cut.
func TestInteropServers(t *testing.T) {
	t.Parallel()
	npmCI(t)
	ts := filepath.Join(interopDir, "ts")
	for name, c := range map[string]struct {
		dir     string
		command []string
		flags   []string
	}{
		"go": {goDir, []string{goClient(t, "."), "serve"},
			[]string{"", "--protocol=2025-06-18", "--protocol=2025-03-26", "stateless",
				"stateless --protocol=2026-07-28"}},
		"typescript": {ts, []string{"node", "serve.mjs"},
			[]string{"", "--protocol=2025-06-18", "--protocol=2025-03-26"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(c.command[0], c.command[1:]...)
			cmd.Dir, cmd.Stderr = c.dir, os.Stderr
			stdout, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			})
			line, err := bufio.NewReader(stdout).ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			s := &httpServer{url: strings.TrimSpace(line)}
			for _, flags := range c.flags {
				cuts := newCutter(t, s)
				args := []string{"call", "count", "n=30", "region= north ", "-o", "ndjson", "--url",
					cuts.url()}
				out, stderr := &trigger{text: "no cut", do: cuts.cut}, &syncBuffer{}
				if flags == "" {
					out.text = `"progress":5`
				}
				if rest, stateless := strings.CutPrefix(flags, "stateless"); stateless {
					args[len(args)-1] = strings.Replace(cuts.url(), "/mcp", "/stateless", 1)
					flags = rest
				}
				code := cli.Run(t.Context(), append(args, strings.Fields(flags)...),
					append(environ(t), noConfig), strings.NewReader(""), out, stderr)
				var progress []string
				for line := range strings.Lines(out.String()) {
					if m := regexp.MustCompile(`"progress":(\d+)`).FindStringSubmatch(line); m != nil {
						progress = append(progress, m[1])
					}
				}
				if code != exitFine || len(progress) != 30 || progress[29] != "30" ||
					!strings.Contains(out.String(), "counted 30 in  north ") {
					t.Errorf("%q: exit code %d, progress %v\n%s\n%s", flags, code, progress, out, stderr)
				}
			}
		})
	}
}

// A runnel whose upstream's URL leads back to itself says so, and does not list its own tools for ever.
func TestUpstreamLeadsBack(t *testing.T) {
	t.Parallel()
	var back atomic.Pointer[httputil.ReverseProxy]
	outside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request) {
		back.Load().ServeHTTP(w, r)
	}))
	t.Cleanup(outside.Close)
	s := serveHTTP(t, append(writeConfig(t,
		fmt.Sprintf("upstreams: {self: {url: %q, prefix: s_}}\ntools: {hi: {command: [echo, hi]}}",
			outside.URL+"/mcp")), "--state", "memory")...)
	at, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	back.Store(httputil.NewSingleHostReverseProxy(&url.URL{Scheme: at.Scheme, Host: at.Host}))
	for deadline := time.Now().Add(watchdog); !strings.Contains(s.log.String(),
		"a url among their upstreams leads back"); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not said:\n%s", &s.log)
		}
		s.post(t, "", "tools/list", "", "")
	}
	const maxHops = 8 // each look may find its own tools once more, until a request has gone round that often
	for range maxHops {
		a, _ := s.post(t, "", "tools/list", "", "")
		if strings.Contains(string(a.Result), strings.Repeat("s_", maxHops+1)) {
			t.Errorf("%s", a.Result)
		}
	}
}
