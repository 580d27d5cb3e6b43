package e2e

import (
	"encoding/json"
	"strings"
	"testing"
)

// What is known about a client sets the size of what its model is shown; a flag or the tool itself wins. Of an error, a client that shows less
// gets less, and in all cases head, tail and exit code.
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
		{client: "codex-mcp-client", version: "0.169.0", flags: []string{"--max-result", "32KiB"}, count: 32, fail: 32, own: 20},
		{client: "claude-code", version: "2.1.330", flags: []string{"--max-result", "24KiB"}, count: 24, fail: 9, own: 20},
	} {
		t.Run(c.client+strings.Join(c.flags, ""), func(t *testing.T) {
			t.Parallel()
			s := process(t, racedCommand(t, append(append([]string(nil), config...), c.flags...)...))
			s.sendLine(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":%q,"version":%q}}}`, c.client, c.version)
			s.line()
			s.sendLine(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			for range 2 {
				for tool, kib := range map[string]int{"count": c.count, "fail": c.fail, "own": c.own} {
					s.sendLine(`{"jsonrpc":"2.0","id":%q,"method":"tools/call","params":{"name":%q}}`, tool, tool)
					var answer struct {
						Result struct{ Content []struct{ Text string } }
					}
					line := s.line()
					if err := json.Unmarshal([]byte(line), &answer); err != nil || len(answer.Result.Content) == 0 {
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
