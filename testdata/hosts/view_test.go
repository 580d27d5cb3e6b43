package hosts

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	viewURI  = "ui://runnel/task"
	viewType = "text/html;profile=mcp-app"
)

// TestView is the two hosts from npm that show MCP Apps. Claude Code leaves that to the program that has started it
// (an editor or a desktop program): it reads the page and calls the tools of the view for that program, also while a
// call runs. Qwen Code reads the page after each call, for its web shell, and shows its model the text.
func TestView(t *testing.T) {
	if testing.Short() {
		t.Skip("a minute, in make hosts")
	}
	t.Run("claude-code", func(t *testing.T) {
		v := newViewer(t, "claude-code", "echo hello; until rm DIR/go; do sleep 0.1; done 2>/dev/null",
			"CLAUDE_CODE_MCP_APPS_HOST=1")
		v.start("--input-format", "stream-json", "--output-format", "stream-json", "--verbose")
		v.send(object{"type": "user", "message": object{"role": "user", "content": Prompt}})
		ids := map[string]bool{}
		for n := range 2 {
			v.line(fmt.Sprintf(`"id":"call_%d"`, n))
			var read struct {
				Contents []struct{ URI, MimeType, Text string }
			}
			v.control(&read, object{"subtype": "mcp_read_resource", "serverName": "runnel", "uri": viewURI})
			if c := read.Contents; len(c) != 1 || c[0].URI != viewURI || c[0].MimeType != viewType ||
				!strings.Contains(c[0].Text, "</html>") {
				t.Errorf("the page is %s", shorten(encode(read)))
			}
			var mine struct{ TaskID string }
			if !eventually(runLimit, func() bool {
				v.view(&mine, "view_mine", object{"tool": "script", "arguments": object{}})
				return mine.TaskID != "" && !ids[mine.TaskID]
			}) {
				t.Fatal("the view does not find the call")
			}
			ids[mine.TaskID] = true
			var output struct {
				Text string
				Task struct{ Status string }
			}
			v.view(&output, "view_output", object{"taskId": mine.TaskID, "waitMs": 20_000})
			if output.Text != "hello\n" || output.Task.Status != "working" {
				t.Errorf("the view shows %+v", output)
			}
			if err := os.WriteFile(filepath.Join(v.dir, "go"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		v.line(`"type":"result"`)
		v.end()
	})
	t.Run("qwen", func(t *testing.T) {
		v := newViewer(t, "qwen", "echo hello")
		v.start("-o", "stream-json")
		v.end()
		trace := v.trace()
		if n := len(regexp.MustCompile(`(?m)--> resources/read .*"`+viewURI+`"`).
			FindAllString(trace, -1)); n != 2 {
			t.Errorf("the page is read %d times for two calls", n)
		}
	})
}

// A viewer is the program that has started a host, and what the host and runnel say to each other.
type viewer struct {
	*testing.T
	host    Host
	home    string
	program string
	args    []string
	env     []string
	dir     string
	model   *Model
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Scanner
}

func newViewer(t *testing.T, name, shell string, env ...string) *viewer {
	h := Hosts[slices.IndexFunc(Hosts, func(h Host) bool { return h.Name == name })]
	v := &viewer{T: t, host: h, program: install(t, h), dir: t.TempDir()}
	start := Start{Home: filepath.Join(v.dir, "home"), Project: filepath.Join(v.dir, "home/project")}
	for _, d := range []string{filepath.Join(start.Home, "tmp"), start.Project} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	binary, err := filepath.Abs(*runnel)
	if err != nil {
		t.Fatal(err)
	}
	config := start.write("runnel.yaml",
		"tools: {script: {description: Runs the script, shell: '"+
			strings.ReplaceAll(shell, "DIR", v.dir)+"'}}")
	start.Server = []string{binary, "trace", "--file", filepath.Join(v.dir, "trace"), "--", binary,
		"--config", config, "--state", filepath.Join(v.dir, "state")}
	h.Name += "-view"
	_, trace := traces(t, h, Scenario{Name: "view"})
	v.model, err = Serve(func(results []Result) []Call {
		if len(results) < 2 {
			return []Call{{Tool: "script"}}
		}
		return nil
	}, trace)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.model.Close)
	start.URL = v.model.URL
	args, own := h.Start(start)
	v.home, v.args = start.Home, args
	v.env = slices.Concat(start.environment(os.Getenv("PATH")), own, env)
	return v
}

func (v *viewer) start(args ...string) {
	v.Helper()
	args = argv(v.program, append(v.args, args...)...)
	ctx, cancel := context.WithTimeout(v.Context(), runLimit)
	v.Cleanup(cancel)
	v.cmd = exec.CommandContext(ctx, args[0], args[1:]...)
	v.cmd.Dir, v.cmd.Env, v.cmd.Stderr = filepath.Join(v.home, "project"), v.env, os.Stderr
	out, err := v.cmd.StdoutPipe()
	if err != nil {
		v.Fatal(err)
	}
	v.out = bufio.NewScanner(out)
	v.out.Buffer(nil, 16<<20)
	if v.in, err = v.cmd.StdinPipe(); err != nil {
		v.Fatal(err)
	}
	if err := v.cmd.Start(); err != nil {
		v.Fatal(err)
	}
}

func (v *viewer) send(message any) {
	v.Helper()
	if _, err := io.WriteString(v.in, encode(message)+"\n"); err != nil {
		v.Fatal(err)
	}
}

// line returns the next line of the host that matches.
func (v *viewer) line(pattern string) string {
	v.Helper()
	re := regexp.MustCompile(pattern)
	for v.out.Scan() {
		if re.MatchString(v.out.Text()) {
			return v.out.Text()
		}
	}
	v.Fatalf("the host never says %s: %v", pattern, v.out.Err())
	return ""
}

// control asks the host for something.
func (v *viewer) control(answer any, request object) {
	v.Helper()
	v.send(object{"type": "control_request", "request_id": "r", "request": request})
	var response struct {
		Response struct {
			Subtype, Error string
			Response       json.RawMessage
		}
	}
	if err := json.Unmarshal([]byte(v.line(`"type":"control_response"`)), &response); err != nil {
		v.Fatal(err)
	}
	if r := response.Response; r.Subtype != "success" {
		v.Fatalf("%v: %s", request, r.Error)
	}
	if err := json.Unmarshal(response.Response.Response, answer); err != nil {
		v.Fatal(err)
	}
}

// view calls a tool of the view, as the page does through its host.
func (v *viewer) view(answer any, tool string, arguments object) {
	v.Helper()
	var result struct{ StructuredContent json.RawMessage }
	v.control(&result, object{"subtype": "mcp_call", "tool": "mcp__runnel__" + tool, "arguments": arguments})
	if err := json.Unmarshal(result.StructuredContent, answer); err != nil {
		v.Fatal(err)
	}
}

// end lets the host end, which has given its model what the command printed, and nothing of the page.
func (v *viewer) end() {
	v.Helper()
	if err := v.in.Close(); err != nil {
		v.Error(err)
	}
	for v.out.Scan() { // to its end
	}
	if err := v.cmd.Wait(); err != nil {
		v.Error(err)
	}
	_, results := v.model.Read()
	if len(results) != 2 {
		v.Errorf("the model read %d results", len(results))
	}
	for _, r := range results {
		if r.Text != "hello\n" {
			v.Errorf("the model read %q", shorten(r.Text))
		}
	}
	if declared := `"io.modelcontextprotocol/ui":{"mimeTypes":["` + viewType +
		`"]}`; !strings.Contains(v.trace(), declared) {
		v.Errorf("the host does not declare %s", declared)
	}
}

// trace is what the host and runnel have said to each other.
func (v *viewer) trace() string {
	v.Helper()
	b, err := os.ReadFile(filepath.Join(v.dir, "trace"))
	if err != nil {
		v.Fatal(err)
	}
	return string(b)
}
