package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// A model that does what the texts say reads every line of a long output once: of a task that has ended or
// that runs, from the beginning or what an answer has left out, with colours, and of one that fails.
func TestPagesShowEachLineOnce(t *testing.T) {
	t.Parallel()
	const lines = 1000
	dir := t.TempDir()
	half := func(first, last int) string {
		return fmt.Sprintf(`i=%d; while [ $i -le %d ]; do `+
			`printf "\033[1m#$i\033[0m of the \033[32mcomponents\033[0m\n"; i=$((i+1)); done`, first, last)
	}
	config := writeConfig(t, fmt.Sprintf(`tools:
  ended: {shell: '%[1]s'}
  failed: {shell: '%[1]s; exit 2'}
  running: {shell: '%[2]s; while [ ! -e %[4]s/go ]; do sleep 0.05; done; rm %[4]s/go; %[3]s'}`,
		half(1, lines), half(1, lines/2), half(lines/2+1, lines), dir))
	for _, c := range []struct {
		name, tool, client string
		size               int    // of an answer
		begin              string // more arguments of the first get_task_result
	}{
		{"from the beginning", "ended", "codex-mcp-client", 8 << 10, `,"after":0`},
		{"what is left out", "ended", "codex-mcp-client", 8 << 10, ""},
		{"running from the beginning", "running", "codex-mcp-client", 8 << 10, `,"after":0,"wait_ms":100`},
		{"running", "running", "codex-mcp-client", 8 << 10, `,"wait_ms":100`},
		{"an error", "failed", "qwen-cli-mcp-client", 11 << 10, `,"after":0`},
		{"what is left out of an error", "failed", "qwen-cli-mcp-client", 11 << 10, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := process(t, racedCommand(t, config...))
			s.sendLine(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-06-18",`+
				`"capabilities":{},"clientInfo":{"name":%q,"version":"1"}}}`, c.client)
			s.line()
			s.sendLine(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			call := func(tool, arguments string) (text, id string) {
				s.sendLine(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`,
					tool, arguments)
				var answer struct {
					Result struct {
						Content []struct{ Text string }
						Meta    map[string]struct{ TaskID string } `json:"_meta"`
					}
				}
				if err := json.Unmarshal(s.line(), &answer); err != nil || len(answer.Result.Content) == 0 {
					t.Fatal(err)
				}
				return answer.Result.Content[0].Text, answer.Result.Meta["runnel/task"].TaskID
			}
			for range 2 {
				_, id := call("start_task", fmt.Sprintf(`{"tool":%q}`, c.tool))
				if c.tool != "running" {
					call("get_task_result", fmt.Sprintf(`{"task_id":%q,"grep":"^$"}`, id)) // wait
				}
				read := map[int]int{}
				arguments := fmt.Sprintf(`{"task_id":%q%s}`, id, c.begin)
				for answers := 1; arguments != ""; answers++ {
					text, _ := call("get_task_result", arguments)
					if len(text) > c.size+200 {
						t.Errorf("an answer of %d bytes", len(text))
					}
					for _, line := range oneLine.FindAllStringSubmatch(text, -1) {
						n, _ := strconv.Atoi(line[1])
						read[n]++
					}
					says := howToGoOn.FindStringSubmatch(text)
					switch {
					case answers > 50:
						t.Fatalf("the answers go on and on: %.300s", text)
					case says != nil:
						arguments = strings.TrimSuffix(says[1], "}") + `,"wait_ms":300}`
					case strings.Contains(text, "call get_task_result again"):
						if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
							t.Fatal(err)
						}
						arguments = fmt.Sprintf(`{"task_id":%q}`, id)
					default:
						arguments = ""
					}
				}
				for n := range lines {
					if read[n+1] != 1 {
						t.Errorf("line %d is read %d times", n+1, read[n+1])
					}
				}
				_ = os.Remove(filepath.Join(dir, "go"))
			}
			_ = s.closeStdin()
		})
	}
}

var (
	oneLine   = regexp.MustCompile(`(?m)^#(\d+) of the components$`)
	howToGoOn = regexp.MustCompile(`get_task_result with (\{[^}]*\})`)
)
