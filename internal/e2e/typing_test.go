package e2e

import (
	"strings"
	"testing"
	"time"

	"runnel/internal/processtest"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// typist types into a task as a model does.
type typist struct {
	*witness
	id   string
	read strings.Builder // what it has been shown
}

// begin calls a tool, which is answered with a task that it then types into.
func begin(w *witness, tool string, arguments map[string]any) *typist {
	w.t.Helper()
	var result mcp.CallToolResult
	w.must(&result, "tools/call", map[string]any{"name": tool, "arguments": arguments})
	p := &typist{witness: w, id: rawjson.StringMember(rawjson.Encode(result.Meta[mcp.MetaTask]), "taskId")}
	if p.id == "" || !strings.Contains(firstTextOf(&result), "call send_to_task with") {
		w.t.Fatalf("%s was answered with %+v", tool, result)
	}
	for _, c := range result.Content[1:] {
		text, _ := mcp.TextOf(c)
		p.read.WriteString(text)
	}
	return p
}

// send calls send_to_task once.
func (p *typist) send(arguments map[string]any) *mcp.CallToolResult {
	p.t.Helper()
	with := map[string]any{"task_id": p.id}
	for name, value := range arguments {
		with[name] = value
	}
	var result mcp.CallToolResult
	p.must(&result, "tools/call", map[string]any{"name": "send_to_task", "arguments": with})
	return &result
}

// until sends input, and then looks until it has been shown a text since. It returns all that it was shown.
func (p *typist) until(want string, arguments map[string]any) string {
	p.t.Helper()
	var shown strings.Builder
	for deadline := time.Now().Add(watchdog); ; arguments = map[string]any{"wait_ms": 100} {
		result := p.send(arguments)
		if text := firstTextOf(result); !strings.HasPrefix(text, "[nothing new in ") {
			if before := shown.String(); before != "" && !strings.HasSuffix(before, "\n") {
				shown.WriteByte('\n') // the lines of a terminal that have changed
			}
			shown.WriteString(text)
		}
		if strings.Contains(shown.String(), want) {
			p.read.WriteString(shown.String())
			return shown.String()
		}
		if result.IsError || time.Now().After(deadline) {
			p.t.Fatalf("%q never comes: %q", want, shown.String())
		}
	}
}

// types is until with a line of text.
func (p *typist) types(line, want string) string {
	p.t.Helper()
	return p.until(want, map[string]any{"text": line + "\n"})
}

// A program with open stdin reads what send_to_task writes, to its end; one without is answered with a
// reason.
func TestOpenStdin(t *testing.T) {
	t.Parallel()
	w := newWitness(t, programCommand(t, append(writeConfig(t, `
tools:
  double: {shell: 'echo ready; while read -r line; do echo "$line$line"; done; echo "the end"', stdin: open}
  deaf: {shell: 'echo deaf; exec sleep 600'}
`), "--state", stateDir(t))...))
	for range 2 {
		p := begin(w, "double", nil)
		p.until("abab\n", map[string]any{"text": "ab\n"})
		p.until("cdcd\nefef\n", map[string]any{"text": "cd\nef\n"})
		if got := p.until("[completed, exit code 0, ",
			map[string]any{"text": "last", "eof": true}); !strings.HasPrefix(got, "the end\n[completed") {
			t.Errorf("the end is %q", got) // read fails at the end of the last line, which has no newline
		}
		if refused := p.send(map[string]any{"text": "more\n"}); !refused.IsError ||
			!strings.Contains(firstTextOf(refused),
				"has ended, and reads nothing more: call get_task_result") {
			t.Errorf("after the end: %+v", refused)
		}
	}
	var started mcp.CallToolResult
	w.must(&started, "tools/call",
		map[string]any{"name": "start_task", "arguments": map[string]any{"tool": "deaf"}})
	deaf := &typist{witness: w, id: rawjson.StringMember(rawjson.Encode(started.Meta[mcp.MetaTask]),
		"taskId")}
	for range 2 {
		if refused := deaf.send(map[string]any{"text": "x\n"}); !refused.IsError ||
			!strings.Contains(firstTextOf(refused),
				"it reads no input: only a tool with interactive: true or stdin: open does") {
			t.Errorf("a task without input: %+v", refused)
		}
		if wrong := deaf.send(map[string]any{"keys": []string{"Hyperspace"}}); !wrong.IsError ||
			!strings.Contains(firstTextOf(wrong), `"Hyperspace" is not a key`) {
			t.Errorf("a key that is none: %+v", wrong)
		}
	}
	w.end()
}

// A terminal echoes what is typed; Ctrl-C interrupts what runs in it, and Ctrl-D ends it.
func TestTypingIntoATerminal(t *testing.T) {
	t.Parallel()
	w := newWitness(t, programCommand(t, append(writeConfig(t, `
tools:
  sh: {command: [sh, -i], interactive: true, env: {PS1: "% ", ENV: ""}}
  slow: {shell: 'sleep 1; echo hello; read -r line', interactive: true}
`), "--state", stateDir(t))...))
	for range 2 {
		slow := begin(w, "slow", nil)
		if first := slow.read.String(); !strings.HasPrefix(first, "hello") {
			t.Errorf("a program that starts slowly: the first answer has %q", first)
		}
		slow.until("[completed, exit code 0, ", map[string]any{"text": "x\n"})
		p := begin(w, "sh", nil)
		p.types("echo $((6*7)) $(stty size) $TERM", "42 40 120 xterm-256color\n")
		p.types("tty >&2; cat", "cat\n")
		p.types("echoed", "echoed\nechoed")
		p.until("%", map[string]any{"keys": []string{"C-c"}})
		p.types("sh", "sh\n%")
		p.until("%", map[string]any{"eof": true}) // ends the inner one
		p.types("echo back", "echo back\nback\n%")
		p.until("[completed, exit code 0, ", map[string]any{"eof": true})
	}
	w.end()
}

// The processes of a terminal end with a runnel that is killed: those in the foreground, in the background
// and in a session of their own.
func TestKilledRunnelLeavesNoTerminal(t *testing.T) {
	t.Parallel()
	for range 2 {
		line := processtest.NewLifeline(t)
		w := newWitness(t, programCommand(t, append(writeConfig(t, `
tools: {sh: {command: [sh, -i], interactive: true, env: {PS1: "% ", ENV: "", LINE: "`+line.Path+`"}}}
`), "--state", stateDir(t))...))
		p := begin(w, "sh", nil)
		p.types(`exec 9>"$LINE"; sleep 600 & setsid sleep 600 & echo sta""rted; sleep 600`, "started")
		line.IsHeld()
		w.kill()
		line.Gone()
	}
}

// send_to_task is listed where a tool takes input, and only there.
func TestSendToTaskIsListed(t *testing.T) {
	t.Parallel()
	for config, want := range map[string]bool{
		`tools: {a: {command: [cat]}}`:                   false,
		`tools: {a: {command: [cat], pty: true}}`:        false,
		`tools: {a: {command: [cat], stdin: open}}`:      true,
		`tools: {a: {command: [sh], interactive: true}}`: true,
	} {
		w := newWitness(t, programCommand(t, append(writeConfig(t, config), "--state", "memory")...))
		for range 2 {
			var list mcp.ListToolsResult
			w.must(&list, "tools/list", map[string]any{})
			listed := false
			for _, tool := range list.Tools {
				listed = listed || tool.Name == "send_to_task"
			}
			if listed != want {
				t.Errorf("%s: listed %t", config, listed)
			}
		}
		w.end()
	}
}

// A screen that is asked for where there is none is named.
func TestNoScreen(t *testing.T) {
	t.Parallel()
	w := newWitness(t, programCommand(t, append(writeConfig(t, `
tools:
  pipe: {shell: 'echo ready; exec cat', stdin: open}
`), "--state", stateDir(t))...))
	const says = "[the task has no screen: its program runs without a terminal]"
	for range 2 {
		p := begin(w, "pipe", nil)
		for _, arguments := range []map[string]any{{"text": "one\n", "wait_ms": 200, "screen": true}, {"wait_ms": 0, "screen": true}} {
			if said := firstTextOf(p.send(arguments)); !strings.HasSuffix(said, says) {
				t.Errorf("%v: %q", arguments, said)
			}
		}
		if said := firstTextOf(p.send(map[string]any{"text": "two\n", "wait_ms": 200})); strings.Contains(said, "screen") {
			t.Errorf("without screen: %q", said)
		}
		p.until("[completed, exit code 0, ", map[string]any{"eof": true})
	}
	w.end()
}

// A model is shown no secret that a program draws on its terminal, not even in pieces with escape sequences
// between them.
func TestSecretOnATerminal(t *testing.T) {
	t.Parallel()
	w := newWitness(t, programCommand(t, append(writeConfig(t, `
secrets: {patterns: ['token-\d+']}
tools:
  draw: {shell: 'printf "tok\033[1men-12\033[0m3\r\n"; read -r x; printf "to\033[31mken-\033[0m456 %s\r\n" "$x"; sleep 600', interactive: true}
`), "--state", stateDir(t))...))
	for range 2 {
		p := begin(w, "draw", nil)
		p.until("again", map[string]any{"text": "again\n"})
		p.until("column", map[string]any{"screen": true})
		shown := p.read.String()
		if strings.Contains(shown, "123") || strings.Contains(shown, "456") {
			t.Errorf("the model is shown %q", shown)
		}
		var result mcp.CallToolResult
		w.must(&result, "tools/call",
			map[string]any{"name": "cancel_task", "arguments": map[string]any{"task_id": p.id}})
	}
	w.end()
}
