package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"runnel/rpc/mcp"
	programs "runnel/tools/process"
	"runnel/tools/sandbox"
)

// needSandbox skips a test where the system gives no sandbox.
func needSandbox(t testing.TB) {
	t.Helper()
	program, err := programs.ThisProgram()
	if err == nil {
		err = (&sandbox.Policy{}).Check(program)
	}
	if err != nil {
		t.Skip(err)
	}
}

// Servers from npm work in a sandbox, and cannot write outside of their directory, nor read a secret of the
// home, although their own rules would let them.
func TestSandboxedServersOfNpm(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	if _, err := exec.LookPath("npm"); err != nil {
		t.Skip("npm is needed: ", err)
	}
	modules := npmCI(t)
	home := t.TempDir()
	project, outside, secret := filepath.Join(home, "project"), filepath.Join(home, "outside"),
		filepath.Join(home, ".ssh")
	for _, dir := range []string{project, outside, secret} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(secret, "id"), []byte("a key"), 0o600); err != nil {
		t.Fatal(err)
	}
	server := func(name string) string {
		return filepath.Join(modules, "@modelcontextprotocol", "server-"+name, "dist", "index.js")
	}
	file := filepath.Join(project, "runnel.yaml")
	config := fmt.Sprintf("sandbox: true\nupstreams:\n"+
		"  files: {command: [node, %q, %q], prefix: files_}\n"+
		"  everything: {command: [node, %q], prefix: every_, sandbox: {limits: {files: 1024}}}\n",
		server("filesystem"), home, server("everything"))
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := racedCommand(t, "--config", file, "--state", "memory")
	cmd.Env = append(cmd.Env, "HOME="+home)
	w := newWitness(t, cmd)
	defer w.end()
	call := func(tool string, arguments map[string]any) (text string, failed bool) {
		t.Helper()
		var result mcp.CallToolResult
		w.must(&result, "tools/call", map[string]any{"name": tool, "arguments": arguments})
		for _, block := range result.Content {
			said, _ := mcp.TextOf(block)
			text += said
		}
		return text, result.IsError
	}
	for n := range 2 {
		inside := filepath.Join(project, fmt.Sprint("inside", n))
		if text, failed := call("files_write_file", map[string]any{"path": inside, "content": "x"}); failed {
			t.Errorf("writing %s: %s", inside, text)
		}
		if text, failed := call("files_read_text_file", map[string]any{"path": inside}); failed ||
			text != "x" {
			t.Errorf("reading %s: %s", inside, text)
		}
		denied := filepath.Join(outside, fmt.Sprint("denied", n))
		if text, failed := call("files_write_file",
			map[string]any{"path": denied, "content": "x"}); !failed ||
			!strings.Contains(text, "EROFS") && !strings.Contains(text, "EACCES") {
			t.Errorf("writing %s: %s", denied, text)
		}
		if _, err := os.Stat(denied); !os.IsNotExist(err) {
			t.Errorf("%s: %v", denied, err)
		}
		if text, failed := call("files_read_text_file",
			map[string]any{"path": filepath.Join(secret, "id")}); !failed || strings.Contains(text, "a key") {
			t.Errorf("reading a secret: %s", text)
		}
		if text, failed := call("every_echo", map[string]any{"message": "hi"}); failed ||
			!strings.Contains(text, "hi") {
			t.Errorf("echo: %s", text)
		}
		if text, failed := call("every_get-sum", map[string]any{"a": 2, "b": 3}); failed ||
			!strings.Contains(text, "5") {
			t.Errorf("get-sum: %s", text)
		}
	}
}

// Under network: ask, the user is asked before another host is reached, in all eras: once, and the answer
// counts for the call or for the session. A client that cannot ask is refused the host. (A host that was
// allowed is not there: the proxy answers 502. One that was not is refused with 403.)
func TestSandboxAsks(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is needed: ", err)
	}
	flags := writeConfig(t, `
tools:
  get:
    shell: 'for n in 1 2; do curl -s -o /dev/null -w "%{http_code} " --noproxy "" "http://127.0.0.1:$port/"; done; exit 1'
    input: {port: {type: string}}
    sandbox: {network: ask}`)
	for _, era := range []string{"", "--no-task", "--protocol=2026-07-28", "--protocol=2025-06-18"} {
		args := append([]string{"call", "get", "port=1"}, strings.Fields(era)...)
		for range 2 {
			if got := runClient(t, "", append(append(args, "--yes"),
				flags...)...); !strings.HasPrefix(got.stdout, "502 502 ") {
				t.Errorf("%s, yes: %q\n%s", era, got.stdout, got.stderr)
			}
			if got := runClient(t, "", append(args, flags...)...); !strings.HasPrefix(got.stdout,
				"403 403 ") || !strings.Contains(got.stderr,
				"blocked by the sandbox: connect to 127.0.0.1:1; allowed: nothing; this client cannot ask its user, who can list it: network: [127.0.0.1:1]") {
				t.Errorf("%s, cannot ask: %q\n%s", era, got.stdout, got.stderr)
			}
		}
	}

	s := process(t, racedCommand(t, flags...))
	s.sendLine(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":%q,"capabilities":{"elicitation":{}},"clientInfo":{"name":"c","version":"1"}}}`, newestHandshake)
	s.line()
	s.sendLine(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	for n, step := range []struct{ port, answer, want string }{
		{"1", `{"action":"accept","content":{"allow":"no"}}`, "403 403 "},
		{"1", `{"action":"decline"}`, "403 403 "},
		{"1", `{"action":"accept","content":{"allow":"for this call"}}`, "502 502 "},
		{"1", `{"action":"accept","content":{"allow":"for this session"}}`, "502 502 "},
		{"1", "", "502 502 "},
		{"2", `{"action":"cancel"}`, "403 403 "},
		{"1", "", "502 502 "},
	} {
		question := "get wants to connect to 127.0.0.1:" + step.port + ". Its sandbox does not allow that."
		if line := callAsked(t, s, n, "get", fmt.Sprintf(`{"port":%q}`, step.port), question,
			step.answer); !strings.Contains(line, step.want) {
			t.Errorf("%+v: %s", step, line)
		}
	}
}

// With ask in write, the user is asked after a write that the sandbox refused, and the next call may.
func TestSandboxAsksToWrite(t *testing.T) {
	t.Parallel()
	needSandbox(t)
	outside := t.TempDir()
	s := process(t, racedCommand(t, writeConfig(t, fmt.Sprintf(`
tools:
  put: {shell: 'echo new > "$file"', input: {file: {type: string}}, sandbox: {write: [ask]}}
  own: {shell: 'echo new > own.txt', sandbox: {write: [ask]}}
  other: {shell: 'echo new > %s/other', sandbox: true}`, outside))...))
	s.sendLine(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":%q,"capabilities":{"elicitation":{}},"clientInfo":{"name":"c","version":"1"}}}`, newestHandshake)
	s.line()
	s.sendLine(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	file := filepath.Join(outside, "x")
	arguments := map[string]string{"put": fmt.Sprintf(`{"file":%q}`, file), "own": "{}", "other": "{}"}
	for n, step := range []struct{ tool, answer, want string }{
		{"own", "", "no output, exit code 0"},
		{"put", `{"action":"accept","content":{"allow":"no"}}`,
			"blocked by the sandbox: write to " + file + "; allowed: "},
		{"put", `{"action":"decline"}`, "blocked by the sandbox: write to " + file + "; allowed: "},
		{"put", `{"action":"accept","content":{"allow":"for this session"}}`,
			"its user allows it from now on: call put again"},
		{"put", "", "no output, exit code 0"},
		{"put", "", "no output, exit code 0"},
		{"other", "", "blocked by the sandbox: write to "},
	} {
		question := "put wants to change " + outside + ". Its sandbox does not allow that."
		if line := callAsked(t, s, n, step.tool, arguments[step.tool], question,
			step.answer); !strings.Contains(line, step.want) {
			t.Errorf("%+v: %s", step, line)
		}
	}
}

// callAsked calls a tool and returns the line with its result. Before that, the user must be asked the
// question, and answers; with an empty answer, nothing may be asked.
func callAsked(t *testing.T, s *session, id int, tool, arguments, question, answer string) (line string) {
	t.Helper()
	s.sendLine(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id,
		tool, arguments)
	line = string(s.line())
	if asked := strings.Contains(line, "elicitation/create"); asked != (answer != "") {
		t.Fatalf("%s, answer %q: %s", tool, answer, line)
	} else if !asked {
		return line
	}
	var asked struct {
		ID     int
		Params struct{ Message string }
	}
	if err := json.Unmarshal([]byte(line), &asked); err != nil || asked.Params.Message != question {
		t.Fatalf("%v: %s", err, line)
	}
	s.sendLine(`{"jsonrpc":"2.0","id":%d,"result":%s}`, asked.ID, answer)
	return string(s.line())
}
