package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"runnel/rpc/mcp"
)

// balanced are two fronts of one state behind a balancer that sends each request to the next one, or to the
// other if that one takes no connection or, for a GET, breaks it.
type balanced struct {
	*httpServer // the balancer
	fronts      [2]*httpServer
	next        atomic.Int64
	silent      [2]atomic.Int64 // when a front did not answer: for failTimeout it gets no requests
	args, env   []string        // of the fronts
}

func newBalanced(t *testing.T, env []string, args ...string) *balanced {
	t.Helper()
	b := &balanced{args: args, env: env}
	for i := range b.fronts {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_ = listener.Close()
		b.start(t, i, listener.Addr().String())
	}
	proxy := &httputil.ReverseProxy{
		Transport: balancing{b}, FlushInterval: -1, ErrorLog: nil,
		Rewrite: func(p *httputil.ProxyRequest) { p.Out.Host = "" },
	}
	server := httptest.NewServer(proxy)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	b.httpServer = &httpServer{url: server.URL + "/mcp"}
	return b
}

// start starts a front at an address.
func (b *balanced) start(t *testing.T, i int, address string) {
	t.Helper()
	s := &httpServer{cmd: racedCommand(t, append(slices.Clone(b.args), "--no-stdio", "--log-format", "json",
		"--http", address, "--http-advertise", "http://"+address)...)}
	s.cmd.Env, s.cmd.Stderr = append(s.cmd.Env, b.env...), &s.log
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.end()
		late := time.AfterFunc(watchdog, func() { _ = s.cmd.Process.Kill() })
		defer late.Stop()
		if _ = s.cmd.Wait(); t.Failed() {
			t.Logf("front %d:\n%s", i, &s.log)
		}
	})
	s.await(t, &s.log)
	b.fronts[i] = s
}

// has opens a session, and returns the number of the front that has it.
func (b *balanced) has(t *testing.T) (client *resumed, front int) {
	opened := func() int { return strings.Count(b.fronts[0].log.String(), `"session opened"`) }
	before := opened()
	client, _ = b.open(t)
	if opened() > before {
		return client, 0
	}
	return client, 1
}

type balancing struct{ *balanced }

// balancerPatience is how long a front may take to begin its answer: longer than the fronts wait for each other.
const (
	balancerPatience = 15 * time.Second
	failTimeout      = time.Minute
)

func (b balancing) RoundTrip(r *http.Request) (response *http.Response, err error) {
	var body []byte
	if r.Body != nil {
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	first := b.next.Add(1) % 2
	if time.Since(time.Unix(0, b.silent[first].Load())) < failTimeout {
		first = 1 - first
	}
	for _, i := range []int64{first, 1 - first} { // one that was silent is better than one that is gone
		front, _ := url.Parse(b.fronts[i].url)
		r.URL.Scheme, r.URL.Host = front.Scheme, front.Host
		r.Body = io.NopCloser(bytes.NewReader(body))
		response, err = (&http.Transport{DisableKeepAlives: true, ResponseHeaderTimeout: balancerPatience}).
			RoundTrip(r)
		if late, ok := errors.AsType[net.Error](err); ok && late.Timeout() {
			b.silent[i].Store(time.Now().UnixNano())
		}
		failed, ok := errors.AsType[*net.OpError](err)
		if !ok || failed.Op != "dial" && r.Method != http.MethodGet {
			break
		}
	}
	return response, err
}

// Clients of both eras do all that they do behind a balancer that knows of no sessions: each request may come
// to another front. When a front is killed its clients go on at the other.
func TestTwoFrontsBehindABalancer(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) (env []string){
		"nats": func(t *testing.T) []string { return []string{"RUNNEL_STATE=" + startNATS(t)} },
		"redis": func(t *testing.T) []string {
			creds := filepath.Join(t.TempDir(), "creds")
			if err := os.WriteFile(creds, []byte("runnel secret-of-this-test\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			address := redisServer(t, "secret-of-this-test")
			return []string{"RUNNEL_STATE=redis://" + address, "RUNNEL_REDIS_CREDS=" + creds}
		},
		"disk": func(t *testing.T) []string { return []string{"RUNNEL_STATE=" + t.TempDir()} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newBalanced(t, open(t), writeConfig(t, balancedConfig)...).play(t)
		})
	}
}

const balancedConfig = `
selftest: true
tools:
  sure: {shell: 'echo one; echo two', confirm: "Really?"}
  lines: {shell: 'for i in 1 2 3 4 5 6 7 8; do echo line $i; sleep 0.1; done'}
  nap: {shell: 'echo dozing; exec sleep 600', task: optional}
`

// play lets clients do all that they do.
func (b *balanced) play(t *testing.T) {
	for range 2 {
		b.handshake(t)
		b.stateless(t)
	}
	b.killed(t)
}

// The same behind nginx, as testdata/deploy configures it.
func TestTwoFrontsBehindNginx(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("nginx")
	if err != nil {
		t.Skip("it takes nginx: apt-get install nginx-light")
	}
	b := newBalanced(t, []string{"RUNNEL_STATE=" + startNATS(t)}, writeConfig(t, balancedConfig)...)
	config, err := os.ReadFile("testdata/deploy/nginx.conf")
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address, host := listener.Addr().String(),
		func(i int) string { return strings.Split(b.fronts[i].url, "/")[2] }
	_ = listener.Close()
	site := strings.NewReplacer("listen 80;", "listen "+address+";", "front-a:8080", host(0),
		"front-b:8080", host(1))
	dir := t.TempDir()
	text := "daemon off; master_process off; pid pid; error_log stderr;\nevents {}\nhttp {\naccess_log off;\n"
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		text += kind + "_temp_path " + dir + "/" + kind + ";\n"
	}
	text += site.Replace(string(config)) + "}\n"
	if err := os.WriteFile(filepath.Join(dir, "nginx.conf"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var log syncBuffer
	nginx := exec.Command(program, "-p", dir, "-c", "nginx.conf")
	nginx.Stderr = &log
	if err := nginx.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = nginx.Process.Kill()
		if _ = nginx.Wait(); t.Failed() {
			t.Logf("nginx:\n%s", &log)
		}
	})
	b.httpServer = &httpServer{url: "http://" + address + "/mcp"}
	for deadline := time.Now().Add(watchdog); ; time.Sleep(20 * time.Millisecond) {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	b.play(t)
}

// open begins a session, with the stream for what belongs to no request.
func (b *balanced) open(t *testing.T) (client *resumed, standing *bufio.Reader) {
	client = &resumed{t: t, s: b.httpServer}
	hello := strings.Replace(initialize, `"capabilities":{`, `"capabilities":{"elicitation":{},`, 1)
	client.session = client.send("POST", hello).Header.Get("Mcp-Session-Id")
	return client, bufio.NewReader(client.send("GET", "").Body)
}

// subscribe starts a task and subscribes to its log.
func (b *balanced) subscribe(t *testing.T, client *resumed) (task string) {
	task = handleOf(t, ask(client, "n", "tools/call", `"name":"nap","arguments":{},"task":{}`))
	ask(client, "s", "resources/subscribe", fmt.Sprintf(`"uri":"runnel://tasks/%s/log"`, task)).Body.Close()
	return task
}

// ask sends a request.
func ask(client *resumed, id, method, params string) *http.Response {
	return client.send("POST", fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":%q,"params":{%s}}`, id,
		method, params))
}

func (b *balanced) handshake(t *testing.T) {
	client, standing := b.open(t)

	// A question of a call, and its answer.
	call := ask(client, "c", "tools/call", `"name":"sure","arguments":{},"task":{}`)
	result := ask(client, "r", "tasks/result", fmt.Sprintf(`"taskId":%q`, handleOf(t, call)))
	lines := bufio.NewReader(result.Body)
	var question struct{ ID json.RawMessage }
	_ = json.Unmarshal([]byte(until(t, standing, `"elicitation/create"`)), &question)
	const accept = `{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{}}}`
	client.answer(fmt.Sprintf(accept, question.ID))
	until(t, lines, `two`)

	// A stream that is lost again and again.
	client.response = ask(client, "l", "tools/call", `"name":"lines","arguments":{},"task":{}`)
	for range 100 {
		over := client.read(2)
		_ = client.response.Body.Close()
		if over || len(client.ends) > 0 {
			break
		}
		client.response = client.send("GET", "")
	}
	if got := client.text.String(); strings.Count(got, "line") != 8 || !strings.HasSuffix(got, "line 8\n") {
		t.Errorf("the stream has brought %q", got)
	}
	client.lastEvent = ""

	// A plain call that is cancelled.
	call = ask(client, "p", "tools/call", `"name":"nap","arguments":{},"_meta":{"progressToken":1}`)
	lines = bufio.NewReader(call.Body)
	until(t, lines, "progress")
	client.answer(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"p"}}`)
	if rest, err := io.ReadAll(lines); err != nil || strings.Contains(string(rest), `"result"`) {
		t.Errorf("%v: %s", err, rest)
	}

	// What a subscription brings.
	task := b.subscribe(t, client)
	ask(client, "x", "tasks/cancel", fmt.Sprintf(`"taskId":%q`, task)).Body.Close()
	until(t, standing, task+"/log")

	for _, want := range []int{http.StatusNoContent, http.StatusNotFound, http.StatusNotFound} {
		if got := b.status(t, client, "DELETE", ""); got != want {
			t.Errorf("DELETE: %d, want %d", got, want)
		}
	}
	const ping = `{"jsonrpc":"2.0","id":"z","method":"ping"}`
	if got := b.status(t, client, "POST", ping); got != http.StatusNotFound {
		t.Errorf("a session that has ended: %d", got)
	}
}

// status returns the status of a request.
func (b *balanced) status(t *testing.T, client *resumed, method, body string) int {
	request, err := http.NewRequestWithContext(t.Context(), method, b.url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Mcp-Session-Id", client.session)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	return response.StatusCode
}

// stateless is a client of 2026-07-28: a question is answered, a task found and cancelled, and what is listened
// to is told, by whichever front.
func (b *balanced) stateless(t *testing.T) {
	get := func(id string, status mcp.TaskStatus) (task map[string]any) {
		t.Helper()
		for deadline := time.Now().Add(watchdog); ; time.Sleep(10 * time.Millisecond) {
			a, _ := b.post(t, "", "tasks/get", id, fmt.Sprintf(`"taskId":%q`, id))
			if _ = json.Unmarshal(a.Result, &task); task["status"] == string(status) {
				return task
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s %+v, want it %s", a.Result, a.Error, status)
			}
		}
	}
	start := func(tool string) string {
		t.Helper()
		a, _ := b.post(t, "", "tools/call", tool, fmt.Sprintf(`"name":%q,"arguments":{}`, tool))
		var task struct{ TaskID string }
		if _ = json.Unmarshal(a.Result, &task); task.TaskID == "" {
			t.Fatalf("%s %+v", a.Result, a.Error)
		}
		return task.TaskID
	}
	id := start("nap")
	for range 2 {
		get(id, mcp.TaskWorking)
	}
	var listeners []*bufio.Reader
	for range 2 {
		heard := b.asks(t, "subscriptions/listen", "", fmt.Sprintf(`"notifications":{"taskIds":[%q]}`, id))
		until(t, heard, "acknowledged")
		listeners = append(listeners, heard)
	}
	b.post(t, "", "tasks/cancel", id, fmt.Sprintf(`"taskId":%q`, id))
	for _, heard := range listeners {
		get(id, mcp.TaskCancelled)
		until(t, heard, `"status":"cancelled"`)
	}

	var created struct{ Result struct{ TaskID string } }
	call, _ := io.ReadAll(b.asks(t, "tools/call", "ask",
		`"name":"ask","arguments":{"message":"Really?","delayMs":500}`))
	call = call[max(bytes.LastIndex(call, []byte(`{"jsonrpc"`)), 0):] // it may have come as an event
	if err := json.Unmarshal(call, &created); err != nil {
		t.Fatalf("%v: %s", err, call)
	}
	id = created.Result.TaskID // the next request comes to the other front
	questions, _ := get(id, mcp.TaskInputRequired)["inputRequests"].(map[string]any)
	for question := range questions {
		answer := fmt.Sprintf(`"taskId":%q,"inputResponses":{%q:{"action":"accept","content":{"answer":"two"}}}`, id, question)
		if a, _ := b.post(t, "", "tasks/update", id, answer); a.Error != nil {
			t.Errorf("%+v", a.Error)
		}
	}
	if got := fmt.Sprint(get(id, mcp.TaskCompleted)["result"]); len(questions) != 1 ||
		!strings.Contains(got, "two") {
		t.Errorf("%d questions, then %s", len(questions), got)
	}
}

// asks sends a request of a client of 2026-07-28 that can be asked, and returns what comes.
func (b *balanced) asks(t *testing.T, method, name, members string) *bufio.Reader {
	t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":"l","method":%q,"params":%s}`, method,
		inEra(`"elicitation":{},`+takes, "", members))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for header, value := range map[string]string{
		"Content-Type": "application/json", "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method,
		"Mcp-Name": name,
	} {
		request.Header.Set(header, value)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	return bufio.NewReader(response.Body)
}

// killed kills the front that has a session. The client goes on at the other, and what it had subscribed to
// is still subscribed to.
func (b *balanced) killed(t *testing.T) {
	client, has := b.has(t)
	lost := b.subscribe(t, client)
	owner := b.fronts[has]
	_ = owner.cmd.Process.Kill()
	_ = owner.cmd.Wait()
	standing := bufio.NewReader(client.send("GET", "").Body)
	task := b.subscribe(t, client)
	ask(client, "x", "tasks/cancel", fmt.Sprintf(`"taskId":%q`, task)).Body.Close()
	// The task has failed with its front.
	for news := ""; !strings.Contains(news, task) || !strings.Contains(news, lost); {
		news += until(t, standing, "/log")
	}
}
