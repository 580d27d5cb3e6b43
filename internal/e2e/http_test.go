package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"runnel/internal/oauth/oauthtest"
	"runnel/rpc/mcp"
)

// httpServer is the program serving HTTP alone.
type httpServer struct {
	url  string
	cmd  *exec.Cmd
	log  syncBuffer
	ends sync.Once
}

// end lets the program end, once: a second signal would end it at once.
func (s *httpServer) end() {
	s.ends.Do(func() { _ = s.cmd.Process.Signal(syscall.SIGTERM) })
}

// serveHTTP starts the program, which must end well at the end of the test.
func serveHTTP(t *testing.T, args ...string) *httpServer {
	t.Helper()
	return startHTTP(t, append(args, "--no-stdio")...)
}

// startHTTP is serveHTTP without --no-stdio. The program's stdin is the null device.
func startHTTP(t *testing.T, args ...string) *httpServer {
	t.Helper()
	s := &httpServer{cmd: racedCommand(t, append(args, "--http", ":0", "--log-format", "json")...)}
	s.cmd.Stderr = &s.log
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		late := time.AfterFunc(watchdog, func() { _ = s.cmd.Process.Kill() })
		defer late.Stop()
		s.end()
		if err := s.cmd.Wait(); err != nil {
			t.Errorf("%v\n%s", err, &s.log)
		}
	})
	s.await(t, &s.log)
	return s
}

// await finds the address in the log.
func (s *httpServer) await(t *testing.T, log *syncBuffer) {
	t.Helper()
	address := regexp.MustCompile(`"address":"(127\.0\.0\.1:[0-9]+)","tls"`)
	for deadline := time.Now().Add(watchdog); s.url == ""; time.Sleep(5 * time.Millisecond) {
		if m := address.FindStringSubmatch(log.String()); m != nil {
			s.url = "http://" + m[1] + "/mcp"
		} else if time.Now().After(deadline) {
			t.Fatalf("no address:\n%s", log)
		}
	}
}

// The official SDKs and mcp-go work with the program over HTTP as over stdio, in both eras.
func TestInteropHTTP(t *testing.T) {
	t.Parallel()
	npmCI(t)
	ts, ts2 := filepath.Join(interopDir, "ts"), filepath.Join(interopDir, "ts2")
	sdk, mcpgo := goClient(t, "."), goClient(t, "./mcpgo")
	for _, c := range []struct {
		name, dir string
		command   []string
	}{
		{"go", goDir, []string{sdk}},
		{"mcp-go", goDir, []string{mcpgo}},
		{"typescript", ts, []string{"node", "client.mjs"}},
		{"typescript2", ts2, []string{"node", "http.mjs"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			config, err := filepath.Abs(writeConfig(t, interopConfig)[1])
			if err != nil {
				t.Fatal(err)
			}
			s := serveHTTP(t, "--selftest", "--config", config)
			interopWith(t, s.url, config, c.dir, c.command[0], c.command[1:]...)
		})
	}
}

// post sends a request of 2026-07-28 and returns its result, or its error. members are those of its params
// but _meta.
func (s *httpServer) post(t *testing.T, token, method, name, members string) (a answer, status int) {
	t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, inEra(takes, "", members))
	ctx, cancel := context.WithTimeout(t.Context(), watchdog)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "POST", s.url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for header, value := range map[string]string{"Content-Type": "application/json",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name,
		"Authorization": "Bearer " + token} {
		if value != "" {
			r.Header.Set(header, value)
		}
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if i := bytes.LastIndex(text, []byte("\ndata: ")); i >= 0 { // a busy machine takes long enough for events
		text = text[i+len("\ndata: "):]
	}
	if err := json.Unmarshal(text, &a); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return a, response.StatusCode
}

// Each token sees the tasks of its owner only, whose limits are each one's own; over both ways in it is the
// same server.
func TestHTTPOwners(t *testing.T) {
	t.Parallel()
	const alice, bob, local = "alice-alice-alice-1", "bob-bob-bob-bob-bob-1", "local-local-local-1"
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte(alice+" alice\n"+bob+" bob\n"+local+" local\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWitness(t, programCommand(t,
		append(writeConfig(t, "tools: {nap: {shell: exec sleep 600, task: required}}"), "--state",
			stateDir(t), "--max-tasks", "1", "--immediate-wait", "1ms", "--http", ":0", "--http-token-file",
			file, "--log-format", "json")...))
	s := &httpServer{}
	s.await(t, &w.log)
	if _, status := s.post(t, "nobody-nobody-nobody", "server/discover", "",
		""); status != http.StatusUnauthorized {
		t.Errorf("status %d", status)
	}
	nap := func(token string) (id string, refused bool) {
		a, _ := s.post(t, token, "tools/call", "nap", `"name":"nap","arguments":{}`)
		var created struct{ TaskID string }
		_ = json.Unmarshal(a.Result, &created)
		return created.TaskID, a.Error != nil
	}
	ids := map[string]string{}
	for _, token := range []string{alice, bob, local} {
		id, refused := nap(token)
		if id == "" || refused {
			t.Fatalf("no task: %s", &w.log)
		}
		ids[token] = id
		if _, refused := nap(token); !refused {
			t.Error("a second task is not refused")
		}
	}
	for token := range ids {
		for of, id := range ids {
			a, _ := s.post(t, token, "tasks/get", id, `"taskId":"`+id+`"`)
			if found := a.Error == nil; found != (token == of) {
				t.Errorf("the task of %s for %s: %v", of, token, a.Error)
			}
		}
	}
	w.must(&mcp.Task{}, "tasks/get", map[string]any{"taskId": ids[local]}) // over stdio
	w.end()
	if text := w.log.String(); strings.Contains(text, alice) || strings.Contains(text, bob) {
		t.Errorf("tokens in the log:\n%s", text)
	}
}

// Access tokens of an issuer: their client, else their user, is the owner, whose limits and tasks are its
// own.
func TestHTTPIssuer(t *testing.T) {
	t.Parallel()
	issuer := oauthtest.New(t)
	const audience = "https://mcp.example.com/mcp"
	token := func(claims map[string]any) string { return issuer.Token(audience, claims) }
	s := serveHTTP(t, append(writeConfig(t, "tools: {nap: {shell: exec sleep 600, task: required}}"),
		"--state", stateDir(t), "--max-tasks", "1", "--immediate-wait", "1ms",
		"--http-issuer", issuer.URL, "--http-audience", audience)...)
	tasks := map[string]string{}
	for _, bearer := range []string{token(map[string]any{"client_id": "app", "sub": "alice"}),
		token(map[string]any{"sub": "alice"})} {
		a, _ := s.post(t, bearer, "tools/call", "nap", `"name":"nap","arguments":{}`)
		var created struct{ TaskID string }
		if err := json.Unmarshal(a.Result, &created); err != nil || created.TaskID == "" {
			t.Fatalf("%s: %s", a.Result, &s.log)
		}
		if again, _ := s.post(t, bearer, "tools/call", "nap",
			`"name":"nap","arguments":{}`); again.Error == nil {
			t.Error("a second task is not refused")
		}
		tasks[bearer] = created.TaskID
	}
	for bearer := range tasks {
		for of, id := range tasks {
			if a, _ := s.post(t, bearer, "tasks/get", id,
				`"taskId":"`+id+`"`); (a.Error == nil) != (bearer == of) {
				t.Errorf("%v", a.Error)
			}
		}
	}
	for _, claims := range []map[string]any{{"aud": "https://other.example.com/mcp"}, {"exp": 1},
		{"iss": "https://other.example.com"}} {
		if _, status := s.post(t, token(claims), "server/discover", "",
			""); status != http.StatusUnauthorized {
			t.Errorf("%v: %d", claims, status)
		}
	}
	for bearer := range tasks {
		if strings.Contains(s.log.String(), bearer) {
			t.Error("tokens in the log")
		}
	}
}

// A manager of services starts programs with the null device as stdin: HTTP is served then, until a signal.
// Without HTTP there is nothing to serve, and the program says so.
func TestHTTPWithoutStdin(t *testing.T) {
	t.Parallel()
	s := startHTTP(t, "--selftest", "--state", "memory")
	for range 2 {
		a, status := s.post(t, "", "tools/call", "echo", `"name":"echo","arguments":{"text":"here"}`)
		if status != http.StatusOK || !strings.Contains(string(a.Result), "here") {
			t.Errorf("%d %+v", status, a)
		}
	}
	if log := s.log.String(); strings.Count(log, "null device: HTTP only is served") != 1 {
		t.Error(log)
	}
	alone := programCommand(t, "--selftest", "--state", "memory")
	alone.Stdin = nil
	if out, err := alone.CombinedOutput(); err != nil || !strings.Contains(string(out), "--http ADDR serves HTTP until a signal") {
		t.Errorf("%v\n%s", err, out)
	}
}

// Whoever would open the program to other machines has to say who may come in.
func TestHTTPRefusesToStart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, says string }{
		{"--http 0.0.0.0:0", "--http-token-file"},
		{"--http [::]:0", "--http-insecure"},
		{"--no-stdio", "--http"},
		{"--http-insecure", "--http"},
		{"--http :0 --http-token-file /nowhere", "/nowhere"},
		{"--http localhost", "address"},
		{"--http :0 --http-issuer https://auth.example.com", "--http-audience"},
		{"--http :0 --http-issuer http://auth.example.com --http-audience x", "https://"},
		{"--http :0 --http-audience x", "--http-issuer"},
		{"--http :0 --http-cert /nowhere", "--http-key"},
		{"--http :0 --http-cert /nowhere --http-key /nowhere", "/nowhere"},
		{"--http :0 --http-trusted-proxy proxy.example.com", "10.0.0.0/8"},
	} {
		out, err := programCommand(t, append(strings.Fields(c.args), "--selftest", "--state", "memory")...).
			CombinedOutput()
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 2 ||
			!strings.Contains(string(out), c.says) {
			t.Errorf("%s: %v\n%s", c.args, err, out)
		}
	}
}

// "Closing the SSE response stream MUST be treated by the server as cancellation of that request" (2026-07-28
// basic/transports/streamable-http): a plain call whose connection is cut in the middle of its events ends
// with its command.
func TestHTTPCutCancels(t *testing.T) {
	t.Parallel()
	s := serveHTTP(t, append(writeConfig(t,
		"tools: {nap: {shell: 'echo pid $$; exec sleep 600', task: optional}}"), "--state", "memory")...)
	ctx, cut := context.WithTimeout(t.Context(), watchdog)
	defer cut()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":%s}`,
		inEra("", `"progressToken":1`, `"name":"nap","arguments":{}`))
	r, err := http.NewRequestWithContext(ctx, "POST", s.url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for header, value := range map[string]string{"Content-Type": "application/json",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "nap"} {
		r.Header.Set(header, value)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	said, pid := regexp.MustCompile(`"pid ([0-9]+)`), 0
	for lines := bufio.NewScanner(response.Body); pid == 0 && lines.Scan(); {
		if m := said.FindStringSubmatch(lines.Text()); m != nil {
			pid, _ = strconv.Atoi(m[1])
		}
	}
	if pid == 0 {
		t.Fatalf("%v: no event\n%s", response, &s.log)
	}
	cut()
	gone(t, pid)
}

// SEP-1905 over SSE: "subsequent segments via SSE as JSON-RPC responses", whose "id MUST match the original
// request", on the stream of the call, which ends with the terminal status. A client that loses its
// connection resumes with nothing missing and nothing twice.
func TestHTTPSegments(t *testing.T) {
	t.Parallel()
	s := serveHTTP(t, "--selftest", "--state", "memory")
	session := ""
	send := func(method, body, lastEvent string) *http.Response {
		ctx, cancel := context.WithTimeout(t.Context(), watchdog)
		t.Cleanup(cancel)
		r, err := http.NewRequestWithContext(ctx, method, s.url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		for header, value := range map[string]string{"Mcp-Session-Id": session, "Last-Event-ID": lastEvent} {
			if value != "" {
				r.Header.Set(header, value)
			}
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("%v %v", response, err)
		}
		t.Cleanup(func() { response.Body.Close() })
		return response
	}
	session = send("POST", strings.Replace(initialize, `"tasks":{`,
		`"tasks":{"responses":{"modes":["task","immediate","streaming"]},`, 1), "").
		Header.Get("Mcp-Session-Id")
	response := send("POST", `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"stream","arguments":{"count":12,"intervalMs":50},"task":{"responseModes":["streaming"]}}}`, "")
	next := 1
	output := ""
	lastEvent := ""
	ended := ""
	for cut := 3; ended == ""; cut += 4 {
		lines := bufio.NewScanner(response.Body)
		for n := 0; n < cut && lines.Scan(); {
			if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
				lastEvent = id
			}
			data, ok := strings.CutPrefix(lines.Text(), "data: {")
			if !ok {
				continue
			}
			n++
			var m struct {
				ID     int
				Result struct {
					Segments []struct {
						SeqNr int
						Text  string
					} `json:"partial-content"`
				}
				Params struct{ Status string }
			}
			if err := json.Unmarshal([]byte("{"+data), &m); err != nil {
				t.Fatal(err)
			}
			for _, segment := range m.Result.Segments {
				if segment.SeqNr != next || m.ID != 5 {
					t.Fatalf("segment %d of call %d, want %d of 5", segment.SeqNr, m.ID, next)
				}
				next++
				output += segment.Text
			}
			ended = m.Params.Status
		}
		if ended == "" {
			response.Body.Close()
			response = send("GET", "", lastEvent)
		}
	}
	want := ""
	for n := range 12 { // a busy machine puts several into a segment
		want += fmt.Sprintf("chunk %06d\n", n)
	}
	if want += "streamed 12 chunks"; numbersOf(output) != want || ended != "completed" {
		t.Errorf("%q in %d segments, ended %q", output, next-1, ended)
	}
	if rest, err := io.ReadAll(response.Body); err != nil || strings.Contains(string(rest), "data") {
		t.Errorf("after the end: %s, %v", rest, err)
	}
}
