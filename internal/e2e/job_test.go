package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// The main job: a client that takes partials runs go test -v of this repository as a task, and sees the
// handle, then partials 0, 1, 2 ... while the tests run, then one terminal status, then the result with the
// exit code. (The audit of the session checks the order.)
func TestGoTestAsTask(t *testing.T) {
	t.Parallel()
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	cmd := programCommand(t, writeConfig(t, fmt.Sprintf(`
tools:
  test:
    description: Run the Go tests of some packages
    command: [go, test, -count=1, -v, "{{packages}}"]
    dir: %q
    input:
      packages: {type: array, items: {type: string}, default: ["./..."]}
    timeout: 5m
    maxResult: 512KiB
`, root))...)
	goEnv, err := exec.Command("go", "env", "GOCACHE", "GOMODCACHE", "GOFLAGS", "GOPATH").Output()
	if err != nil {
		t.Fatal(err)
	}
	values := strings.Split(string(goEnv), "\n")
	cmd.Env = append(cmd.Env, "GOCACHE="+values[0], "GOMODCACHE="+values[1], "GOFLAGS="+values[2],
		"GOPATH="+values[3])

	s := process(t, cmd)
	s.open()
	s.sendLine(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"test","arguments":{"packages":["./rpc/mcp","./tools/text"]},"task":{}}}`)
	s.line()
	var text strings.Builder
	var taskID string
	partials := 0
	for {
		line, err := s.next(5 * time.Minute)
		if err != nil {
			t.Fatalf("%v\nstderr:\n%s", err, s.stderr)
		}
		p, err := decodePartial(line)
		if err != nil {
			break
		}
		partials++
		taskID = p.Params.TaskID
		text.WriteString(p.text())
	}
	s.sendLine(`{"jsonrpc":"2.0","id":2,"method":"tasks/result","params":{"taskId":"%s"}}`, taskID)
	var answer struct {
		Result struct {
			Content []struct{ Text string }
			Meta    struct {
				Command struct{ ExitCode *int } `json:"runnel/command"`
			} `json:"_meta"`
		}
	}
	if err := json.Unmarshal(s.line(), &answer); err != nil {
		t.Fatal(err)
	}
	if code := answer.Result.Meta.Command.ExitCode; code == nil || *code != 0 {
		t.Errorf("no exit code 0; the partials say:\n%s", &text)
	}
	if !strings.Contains(text.String(), "--- PASS: Test") || len(answer.Result.Content) != 1 ||
		answer.Result.Content[0].Text != text.String() {
		t.Errorf("the partials say:\n%s\nthe result says:\n%v", &text, answer.Result.Content)
	}
	t.Logf("%d bytes in %d partials", text.Len(), partials)
}

// asClock makes the test binary a command that writes the time as its first bytes.
const asClock = "RUNNEL_TEST_AS_CLOCK"

func clockMain() {
	_, _ = fmt.Fprintln(os.Stdout, time.Now().UnixNano())
}

// The first partial leaves within 20 ms of the command's first byte. That is a figure, which a busy test
// machine may miss: it is reported, and only what cannot be chance is an error.
func TestFirstPartialIsPrompt(t *testing.T) {
	const (
		runs = 20
		most = time.Second // the median's bound
	)
	s := process(t, programCommand(t, writeConfig(t, fmt.Sprintf(`
tools:
  clock:
    command: [%q]
    env: {%s: "1", GORACE: atexit_sleep_ms=0}
`, executable, asClock))...))
	s.open()
	var late []time.Duration
	for i := range runs {
		s.sendLine(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"clock","task":{}}}`, i+1)
		s.line()
		line := s.line()
		now := time.Now()
		p, err := decodePartial(line)
		if err != nil {
			t.Fatal(err)
		}
		var nanos int64
		if _, err := fmt.Sscan(p.text(), &nanos); err != nil {
			t.Fatalf("%v: %q", err, p.text())
		}
		late = append(late, now.Sub(time.Unix(0, nanos)))
		s.line() // the terminal status
	}
	slices.Sort(late)
	t.Logf("first byte to first partial: median %v, worst of %d %v", late[runs/2], runs, late[runs-1])
	if late[runs/2] > most {
		t.Errorf("median %v, want at most %v even on a busy machine", late[runs/2], most)
	}
}
