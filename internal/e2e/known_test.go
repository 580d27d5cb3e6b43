package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// What is known about a client sets the size of what its model is shown; a flag or the tool itself wins. Of
// an error, a client that shows less gets less, and in all cases head, tail and exit code.
func TestWhatIsKnownOfAClient(t *testing.T) {
	t.Parallel()
	config := writeConfig(t, `tools:
  count: {command: [seq, '1', '30000']}
  fail: {shell: 'seq 1 30000; exit 2'}
  own: {command: [seq, '1', '30000'], maxResult: 20KiB}`)
	for _, c := range []struct {
		client, version  string
		flags            []string
		count, fail, own int // KiB
	}{
		{client: "test", version: "1", count: 32, fail: 32, own: 20},
		{client: "codex-mcp-client", version: "0.169.0", count: 8, fail: 8, own: 20},
		{client: "claude-code", version: "2.1.330", count: 32, fail: 9, own: 20},
		{client: "qwen-cli-mcp-client-runnel", version: "0.0.1", count: 24, fail: 11, own: 20},
		{client: "codex-mcp-client", version: "0.169.0", flags: []string{"--max-result", "32KiB"}, count: 32,
			fail: 32, own: 20},
		{client: "claude-code", version: "2.1.330", flags: []string{"--max-result", "24KiB"}, count: 24,
			fail: 9, own: 20},
	} {
		t.Run(c.client+strings.Join(c.flags, ""), func(t *testing.T) {
			t.Parallel()
			s := process(t, racedCommand(t, append(append([]string(nil), config...), c.flags...)...))
			s.sendLine(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":%q,"version":%q}}}`, c.client, c.version)
			s.line()
			s.sendLine(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			for range 2 {
				for tool, kib := range map[string]int{"count": c.count, "fail": c.fail, "own": c.own} {
					s.sendLine(`{"jsonrpc":"2.0","id":%q,"method":"tools/call","params":{"name":%q}}`,
						tool, tool)
					var answer struct {
						Result struct{ Content []struct{ Text string } }
					}
					line := string(s.line())
					if err := json.Unmarshal([]byte(line), &answer); err != nil ||
						len(answer.Result.Content) == 0 {
						t.Fatalf("%v: %.300s", err, line)
					}
					said := answer.Result.Content[0].Text
					if len(said) > kib<<10 || len(said) < kib<<10*3/4 {
						t.Errorf("%s: %d bytes, not %d KiB", tool, len(said), kib)
					}
					last := "\n30000\n"
					if tool == "fail" {
						last = "\n30000\nexit code 2 after "
					}
					if !strings.HasPrefix(said, "1\n2\n") || !strings.Contains(said, last) {
						t.Errorf("%s: it begins with %.10q and ends with %q", tool, said, said[len(said)-50:])
					}
				}
			}
			s.closeStdin()
		})
	}
}

// A client whose model reads an error of a task without newlines gets the failure of a command as a result
// that says so, in its first line and in its last. A client that shows progress gets the result of a short
// command inline. Others get what the specification says.
func TestFailuresOfTasksAreRead(t *testing.T) {
	t.Parallel()
	config := writeConfig(t, `tools:
  fail: {shell: 'sleep 0.5; i=1; while [ $i -le 400 ]; do echo "main.go:$i: error $i of the compiler in a long line"; i=$((i+1)); done; exit 2'}
  greet: {shell: 'echo first; sleep 1; echo last'}`)
	type answer struct {
		Result struct {
			ResultType, TaskID, Status string
			IsError                    bool
			Content                    []struct{ Text string }
			Result                     *struct {
				IsError bool
				Content []struct{ Text string }
			}
		}
	}
	for _, known := range []bool{true, false} {
		t.Run(fmt.Sprint(known), func(t *testing.T) {
			t.Parallel()
			client := "test"
			if known {
				client = "claude-code"
			}
			meta := fmt.Sprintf(`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":%q,"version":"2.1.332"},`+
				`"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}`, client)
			ask := func(s *session, params string, more string) (a answer, progress int) {
				s.sendLine(`{"jsonrpc":"2.0","id":1,%s,%s%s}}}`, params, meta, more)
				for {
					line := string(s.line())
					if strings.Contains(line, `"notifications/progress"`) {
						progress++
						continue
					}
					if err := json.Unmarshal([]byte(line), &a); err != nil {
						t.Fatal(err)
					}
					return a, progress
				}
			}
			s := process(t, racedCommand(t, config...))
			for range 2 {
				a, progress := ask(s, `"method":"tools/call","params":{"name":"greet"`,
					`,"progressToken":"p"`)
				if inline := len(a.Result.Content) > 0 && a.Result.Content[0].Text == "first\nlast\n" &&
					progress > 0; inline != known {
					t.Errorf("inline: %t; %d times progress; %+v", inline, progress, a)
				}
			}
			s.closeStdin()
			s = process(t, racedCommand(t, append(config, "--immediate-wait", "100ms")...))
			for range 2 {
				a, _ := ask(s, `"method":"tools/call","params":{"name":"fail"`, "")
				id := a.Result.TaskID
				for a.Result.Result == nil {
					a, _ = ask(s, `"method":"tasks/get","params":{"taskId":"`+id+`"`, "")
				}
				got := a.Result.Result
				said := got.Content[0].Text
				if got.IsError == known || strings.HasPrefix(said,
					"failed: exit code 2\nmain.go:1: error") != known {
					t.Errorf("isError %t, %.80q", got.IsError, said)
				}
				if lines := strings.Split(said, "\n"); !strings.HasPrefix(lines[len(lines)-1],
					"exit code 2 after ") || len(lines) < 401 {
					t.Errorf("%d lines, the last is %q", len(lines), lines[len(lines)-1])
				}
			}
			s.closeStdin()
		})
	}
}

// Tools that a result names are loaded from the start in a client that defers tools and says how; a config
// sets _meta by itself, for all.
func TestToolsThatAreNamedAreLoaded(t *testing.T) {
	t.Parallel()
	config := writeConfig(t, `tools: {own: {command: [echo], _meta: {anthropic/alwaysLoad: true, other: [1]}}, plain: {command: [echo]}}`)
	for client, want := range map[string]string{"claude-code": "cancel_task get_task_result own",
		"test": "own"} {
		s := process(t, racedCommand(t, config...))
		s.sendLine(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":%q,"version":"2.1.330"}}}`, client)
		s.line()
		s.sendLine(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		for range 2 {
			s.sendLine(`{"jsonrpc":"2.0","id":"list","method":"tools/list"}`)
			var list struct {
				Result struct {
					Tools []struct {
						Name string
						Meta map[string]any `json:"_meta"`
					}
				}
			}
			if err := json.Unmarshal(s.line(), &list); err != nil {
				t.Fatal(err)
			}
			var loaded []string
			for _, tool := range list.Result.Tools {
				if tool.Meta["anthropic/alwaysLoad"] == true {
					loaded = append(loaded, tool.Name)
				}
			}
			if got := strings.Join(loaded, " "); got != want || len(list.Result.Tools) != 6 {
				t.Errorf("%s: %q of %d tools", client, got, len(list.Result.Tools))
			}
		}
		s.closeStdin()
	}
}
