package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"runnel/rpc/mcp"
)

// The log keeps the colours of a command. People see them on a terminal, and no other sequence; a pipe, NO_COLOR
// and a client have the text alone.
func TestColors(t *testing.T) {
	t.Parallel()
	const paint = `printf "\033]0;owned\007\033[1;31mred\033[0m plain\033[2K\n"`
	flags := append(writeConfig(t,
		"tools:\n  paint: {shell: '"+paint+"; exit 3'}\n  keep: {shell: '"+paint+"', ansi: keep}"), "--state",
		t.TempDir())
	const plain = "red plain\n"
	host := newWitness(t, programCommand(t, append(flags, "--fallback-tools", "always")...))
	var id string
	for range 2 {
		id = host.start("paint", time.Hour, map[string]any{})
		host.ended(id)
		if got := host.output(id); got != plain {
			t.Errorf("the log as a resource: %q", got)
		}
		for tool, arguments := range map[string]any{
			"paint": map[string]any{}, "get_task_result": map[string]any{"task_id": id, "after": 0},
			"list_tasks": map[string]any{},
		} {
			params := map[string]any{"name": tool, "arguments": arguments,
				"_meta": map[string]any{"progressToken": tool}}
			answer, _ := json.Marshal(host.call("tools/call", params))
			if strings.Contains(string(answer), `31m`) || !strings.Contains(string(answer), "red plain") {
				t.Errorf("%s: %s", tool, answer)
			}
		}
		var kept mcp.CallToolResult
		host.must(&kept, "tools/call", map[string]any{"name": "keep", "arguments": map[string]any{}})
		if said, _ := mcp.TextOf(kept.Content[0]); !strings.Contains(said,
			"\x1b[1;31mred\x1b[0m plain\x1b[2K") {
			t.Errorf("with ansi: keep the result is %q", said)
		}
	}
	host.end()

	// Every message of a streamed call.
	var input strings.Builder
	fmt.Fprintf(&input, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":%q,`+
		`"clientInfo":{"name":"c","version":"1"},"capabilities":{"tasks":{"streaming":{"partial":{}}}}}}`+
		"\n", newestHandshake)
	for n := range 2 {
		fmt.Fprintf(&input, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"paint","arguments":{},`+
			`"_meta":{"progressToken":%[1]d}}}`+"\n", n+1)
	}
	got := runClient(t, input.String(), append(flags, "--drain", "1m")...)
	if strings.Contains(got.stdout, "31m") || strings.Count(got.stdout, `"id":`) != 3 {
		t.Errorf("a client reads\n%s%s", got.stdout, got.stderr)
	}

	screen := newTerminal(t)
	colored := func(what string, want bool) {
		t.Helper()
		shown := screen.tmux("capture-pane", "-p", "-e")
		if is := strings.Contains(shown, "\x1b[1m\x1b[31mred") ||
			strings.Contains(shown, "\x1b[1;31mred"); is != want {
			t.Errorf("%s: in colours %v, want %v:\n%q", what, is, want, shown)
		}
	}
	all := " " + strings.Join(flags, " ")
	for range 2 {
		for _, command := range []string{"call paint", "call keep", "tasks tail " + id} {
			screen.run("runnel " + command + all)
			screen.wait(`(?m)^red plain\n(.*\n)*exit code=`)
			colored(command, true)
		}
		screen.run("runnel top --state " + flags[len(flags)-1])
		screen.wait(`(?m)^runnel top`)
		screen.keys("Enter")
		screen.wait(`(?m)^red plain$`)
		colored("top", true)
		screen.keys("q", "q")
		screen.wait(`exit code=0`)
	}
	screen.keys("export NO_COLOR=1", "Enter")
	screen.run("runnel call paint" + all)
	screen.wait(`(?m)^red plain\n(.*\n)*exit code=3`)
	colored("NO_COLOR", false)
	screen.keys("unset NO_COLOR", "Enter")
	screen.run("runnel call paint" + all + " | cat -v; runnel tasks tail " + id + all + " | cat -v")
	shown := screen.wait(`(?m)^red plain\n(.*\n)*red plain\n`)
	colored("a pipe", false)
	if strings.Contains(shown, "^[") || strings.Contains(shown, "M-") {
		t.Errorf("in a pipe:\n%s", shown)
	}
}
