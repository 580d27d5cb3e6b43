package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks/run"
	"runnel/tasks/sqlite"
)

// people runs the real program, as somebody at a terminal beside the hosts does.
func people(t *testing.T, args ...string) outcome {
	t.Helper()
	cmd := programCommand(t, args...)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

func (o outcome) is(t *testing.T, code int, stdout, stderr string) {
	t.Helper()
	if o.code != code || !regexp.MustCompile("^(?s:"+stdout+")$").MatchString(o.stdout) ||
		!regexp.MustCompile(stderr).MatchString(o.stderr) || stderr == "" && o.stderr != "" {
		t.Errorf("exit code %d, want %d\nstdout %.500q\n  want %q\nstderr %.500q\n  want %q", o.code, code,
			o.stdout, stdout, o.stderr, stderr)
	}
}

// Tasks of the hosts of a machine are seen from another process while they run, can be read as they write,
// and cancelled.
func TestTasksOfALiveProcess(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	onward := filepath.Join(t.TempDir(), "go")
	host := newWitness(t, programCommand(t, append(writeConfig(t, fmt.Sprintf(`
tools:
  steps:
    shell: |
      echo one; echo apart >&2
      while [ ! -e %s ]; do sleep 0.02; done
      echo two
      exit 3
    stderr: separate
  forever:
    shell: echo begun; exec sleep 1000
`, onward)), "--state", state)...))
	start := func(tool string) string {
		var created mcp.CreateTaskResult
		host.must(&created, "tools/call", map[string]any{"name": tool, "task": map[string]any{}})
		return created.Task.TaskID
	}
	steps, forever := start("steps"), start("forever")
	list := func(flags ...string) outcome {
		return people(t, append([]string{"tasks", "list", "--state", state}, flags...)...)
	}
	eventually := func(what string, is func() bool) {
		t.Helper()
		for deadline := time.Now().Add(watchdog); !is(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal(what)
			}
		}
	}
	eventually("the first output is not stored", func() bool { // as it is 0.1 s after it was written
		return strings.Contains(people(t, "tasks", "get", steps, "--state", state).stdout,
			"output:   10 bytes") &&
			strings.Contains(list("--running").stdout, "begun")
	})
	list().is(t, exitFine, `ID +STATUS +TOOL +HOST +AGE +TOOK *\n`+steps[:8]+
		` +working +steps +witness +\d.* (one|apart)\n`+forever[:8]+` +working +forever .* begun\n`, "")
	list("--owner", "other").is(t, exitFine, "", `^no tasks of owner "other" in `)
	people(t, "tasks", "tail", steps, "--owner", "other", "--state", state).
		is(t, exitFailure, "", "there is no task "+steps+` of owner "other"`)
	people(t, "tasks", "cancel", steps, "--owner", "other", "--state", state).
		is(t, exitFailure, "", "there is no task")

	// Without -f, what there is; from a position on, the rest of it.
	people(t, "tasks", "tail", steps[:6], "--state", state).is(t, exitFine, "one\n", "^apart\n$")
	people(t, "tasks", "get", steps[:8], "--state", state).
		is(t, exitFine, `id: +`+steps+`\n.*status: +working\n.*output: +10 bytes\n`, "")

	// With -f, what comes, until the end of the task.
	tail := programCommand(t, "tasks", "tail", "-f", steps, "--state", state)
	var stdout, stderr syncBuffer
	tail.Stdout, tail.Stderr = &stdout, &stderr
	if err := tail.Start(); err != nil {
		t.Fatal(err)
	}
	result := programCommand(t, "tasks", "result", steps, "-o", "json", "--state", state)
	var whole strings.Builder
	result.Stdout = &whole
	if err := result.Start(); err != nil {
		t.Fatal(err)
	}
	eventually("tail -f shows nothing", func() bool { return stdout.String() == "one\n" })
	if err := os.WriteFile(onward, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := tail.Wait(); err != nil || stdout.String() != "one\ntwo\n" || stderr.String() != "apart\n" {
		t.Errorf("tail -f: %v, stdout %q, stderr %q", err, stdout.String(), stderr.String())
	}
	var exit *exec.ExitError
	if err := result.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Errorf("result: %v", err)
	}
	var r mcp.CallToolResult
	if err := json.Unmarshal([]byte(whole.String()), &r); err != nil || !r.IsError ||
		!strings.Contains(whole.String(), `"exitCode":3`) {
		t.Errorf("result: %v: %s", err, whole.String())
	}

	// A cancel ends the command in the other process, and its host is told. While that process stands still,
	// a person is told, and does not wait: it will be cancelled then.
	if err := host.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = host.cmd.Process.Signal(syscall.SIGCONT) }()
	people(t, "tasks", "cancel", forever, "--state", state).
		is(t, exitFailure, "", "^runnel: the runnel that runs task "+forever+
			` has not answered the request to cancel it within 3s \(is it stopped\?\): it will`)
	if err := host.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	eventually("the task is not cancelled when its runnel goes on", func() bool {
		return strings.Contains(people(t, "tasks", "get", forever, "--state", state).stdout, "cancelled")
	})
	var cancelled mcp.Task
	host.must(&cancelled, "tasks/get", map[string]any{"taskId": forever})
	if cancelled.Status != mcp.TaskCancelled {
		t.Errorf("the host sees %+v", cancelled)
	}
	people(t, "tasks", "cancel", forever, "--state", state).
		is(t, exitFailure, "", "had already ended: cancelled")
	host.end()
}

// Stored tasks can be listed, read and forgotten when no runnel runs; scripts get JSON.
func TestTasksKept(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	host := newWitness(t, programCommand(t, "--selftest", "--state", state))
	var ids []string
	for _, call := range []map[string]any{
		{"name": "stream", "arguments": map[string]any{"count": 1000, "bytes": 20}},
		{"name": "fail", "arguments": map[string]any{"message": "<why>"}},
		{"name": "fail", "arguments": map[string]any{"message": "no", "protocol": true}},
		{"name": "blob", "arguments": map[string]any{"bytes": 20}},
		{"name": "sleep", "arguments": map[string]any{"ms": 600000}},
	} {
		call["task"] = map[string]any{}
		var created mcp.CreateTaskResult
		host.must(&created, "tools/call", call)
		ids = append(ids, created.Task.TaskID)
	}
	for _, id := range ids[:4] {
		host.call("tasks/result", map[string]any{"taskId": id})
	}
	in := func(args ...string) outcome {
		return people(t, append(append([]string{"tasks"}, args...), "--state", state)...)
	}
	want := ""
	for n := range 1000 {
		want += fmt.Sprintf("chunk %06d xxxxxx\n", n)
	}
	in("tail", ids[0]).is(t, exitFine, want, "")
	in("tail", ids[0], "-n", "2").is(t, exitFine, want[19960:], "")
	in("tail", ids[0], "-n", "02").is(t, exitFine, want[19960:], "")
	// Decimal, whatever it begins with.
	in("tail", ids[0], "--after", "019900").is(t, exitFine, want[19900:], "")
	in("logs", ids[0], "-f", "-n", "9999").is(t, exitFine, want, "")
	in("tail", ids[0], "-n", "0").is(t, exitFine, "", "")
	in("tail", ids[0], "-n", "2", "--after", "1").is(t, exitUsage, "", "-n does not go with --after")
	in("tail", ids[0], "-f", "--after", "19900").is(t, exitFine, want[19900:], "")
	in("tail", ids[0], "--after", "99999").is(t, exitFine, "", "")
	in("result", ids[0]).is(t, exitFine, "streamed 1000 chunks", "")
	in("result", ids[1]).is(t, exitFailure, "^<why>\n$", "")
	in("result", ids[1], "-o", "json").
		is(t, exitFailure, `\{"content":\[\{"type":"text","text":"[^"]*why[^"]*"\}\],"isError":true.*\}\n`,
			"")
	in("result", ids[2]).is(t, exitFailure, "", `^runnel: fail: no \(code -32603\)\n$`)
	in("result", ids[3]).is(t, exitFine, `\[image image/png 20 bytes\]\n`, "")
	in("get", ids[0], "-o", "json").
		is(t, exitFine, `\{"taskId":"`+ids[0]+
			`","status":"completed",.*"ttl":3600000,"tool":"stream","outputBytes":20000\}\n`, "")
	in("ls", "-o", "ndjson").is(t, exitFine, `(\{"taskId":"[^\n]*\}\n){5}`, "")
	var list struct{ Tasks []struct{ Tool string } }
	if o := in("list", "-o", "json"); json.Unmarshal([]byte(o.stdout), &list) != nil ||
		len(list.Tasks) != 5 || list.Tasks[4].Tool != "sleep" {
		t.Errorf("%+v", o)
	}
	people(t, "__complete", "tasks", "cancel", "--state", state, "").
		is(t, exitFine, ids[4]+`\tsleep working, .* old\n:\d+\n`, "Completion")

	// A prune leaves alone what runs and what ended lately.
	in("prune", "--older", "1h").is(t, exitFine, "", "^0 forgotten\n$")
	in("prune", "--owner", "other").is(t, exitFine, "", "^0 forgotten\n$")
	in("prune").is(t, exitFine, `ID [^\n]*\n([0-9a-f]{8} [^\n]*\n){4}`, "^4 forgotten\n$")
	in("get", ids[0]).is(t, exitFailure, "", "^runnel: there is no task "+ids[0]+" of owner \"local\" in ")
	if a := host.call("tasks/get", map[string]any{"taskId": ids[0]}); a.Error == nil {
		t.Errorf("the host still sees what was forgotten: %s", a.Result)
	}
	in("list", "--running").is(t, exitFine, `ID .*\n`+ids[4][:8]+` +working .*\n`, "")

	// The task of a process that was killed does not run any more.
	host.kill()
	in("list", "--running").is(t, exitFine, "", "^no such tasks of owner")
	in("list").is(t, exitFine, `ID .*\n`+ids[4][:8]+` +failed +sleep .*gone.*\n`, "")
}

// A line about an item begins at the margin, whatever stands before it.
func TestTasksShowItems(t *testing.T) {
	dir := t.TempDir()
	store := sqlite.New(sqlite.Options{Dir: dir})
	runner := run.NewRunner(run.Options{State: store})
	image := mcp.Image([]byte("pixels"), "image/png")
	run, err := runner.Start(t.Context(),
		run.Spec{Tool: "draw", Handle: true, Work: func(ctx context.Context, task *run.Run) run.Done {
			err := task.Log().Append(ctx, partials.Chunk{Data: []byte("no end")},
				partials.Chunk{Kind: partials.Item, Data: image}, partials.Chunk{Data: []byte("more\n")},
				partials.Chunk{Kind: partials.Item, Data: image})
			return run.Done{Result: &mcp.CallToolResult{Content: []mcp.ContentBlock{mcp.Text("no end"), image,
				mcp.Text("more\n"), image}}, Err: err}
		}})
	if err != nil {
		t.Fatal(err)
	}
	run.Delivered()
	<-run.Ended()
	runner.Close()
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"tail", "result"} {
		runClient(t, "", "tasks", command, run.ID(), "--state", dir).
			is(t, exitFine, `no end\n\[image image/png 6 bytes\]\nmore\n\[image image/png 6 bytes\]\n`, "")
	}
}

func TestTasksMisused(t *testing.T) {
	t.Parallel()
	none := filepath.Join(t.TempDir(), "none")
	people(t, "tasks", "list", "--state", none).
		is(t, exitFine, "", "^there is no state in "+none+
			": no task has run there; --state names another directory\n$")
	people(t, "tasks", "list", "--state", none, "-o", "json").
		is(t, exitFine, `\{"tasks":\[\]\}\n`, "there is no state")
	people(t, "tasks", "prune", "--state", none).is(t, exitFine, "", "there is no state")
	people(t, "tasks", "tail", "x", "--state", none).is(t, exitFailure, "", "there is no state")
	if _, err := os.Stat(none); err == nil {
		t.Error("looking makes a state")
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"list", "prune"} { // tasks may be there that cannot be read
		people(t, "tasks", command, "--state", file).
			is(t, exitFailure, "", "^runnel: opening the state in "+file+
				": .*not a directory; --state names another directory, or memory\n$")
	}
	nowhere := []string{file}
	if runtime.GOOS == "linux" {
		nowhere = append(nowhere, "/proc/x")
	}
	for _, dir := range nowhere {
		people(t, "call", "echo", "text=a", "--selftest", "--state", dir).
			is(t, exitFailure, "", "^runnel: opening the state in "+dir+": .*; --state names another directory, or memory\n$")
		people(t, "call", "echo", "text=a", "--no-task", "--selftest", "--state", dir).is(t, exitFine, "a", "")
	}
	people(t, "tasks", "list", "--state", "memory").is(t, exitUsage, "", "the state is memory")
	people(t, "tasks").is(t, exitUsage, "",
		"needs a command: list, get, tail, wait, answer, result, cast, cancel, rm or prune")
	people(t, "tasks", "tial").is(t, exitUsage, "", `did you mean tail\?`)
	people(t, "tasks", "get").is(t, exitUsage, "",
		`^runnel tasks get: which task\? runnel tasks list shows their ids`)
	people(t, "tasks", "result", "a", "b").is(t, exitUsage, "", `unknown argument "b"`)
	people(t, "tasks", "tail", "a", "--after", "x").is(t, exitUsage, "", "--after")
	wrong := t.TempDir()
	if err := os.WriteFile(filepath.Join(wrong, "runnel.db"), []byte(strings.Repeat("no database ", 100)),
		0o600); err != nil {
		t.Fatal(err)
	}
	people(t, "tasks", "list", "--state", wrong).
		is(t, exitFailure, "", "runnel.db is damaged or no state of runnel")
}
