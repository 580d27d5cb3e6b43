package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A front, and workers on what could be other machines: what waits says so, what runs streams through the
// front, is cancelled from it, goes on at another worker when its own is killed, or fails once, and a worker
// that is told to end lets its task end.
func TestFleet(t *testing.T) {
	t.Parallel()
	program, env := builtProgram(t), append(environ(t), "RUNNEL_STATE="+startNATS(t))
	dir := t.TempDir()
	config := writeConfig(t, `
tools:
  hello: {input: {who: {type: string}}, runs: builds, description: greets}
  slow: {runs: builds, queueTimeout: 10m}
  again: {runs: builds, retry: 1}
  confirmed: {runs: builds, confirm: "really?"}
  nowhere: {runs: nobody, queueTimeout: 100ms}
`)
	workers := writeConfig(t, `
tools:
  hello: {command: [echo, "hello {{who}}"], input: {who: {type: string, maxLength: 5}}, runs: builds}
  slow: {shell: "echo begun; while [ ! -e '`+dir+`/go' ]; do sleep 0.02; done; echo done", runs: builds}
  again: {shell: "printf begun; sleep 600", runs: builds}
  confirmed: {shell: "echo confirmed", runs: builds, confirm: "really?"}
`)
	command := func(args ...string) *exec.Cmd {
		cmd := exec.Command(program, args...)
		cmd.Env = env
		return cmd
	}
	people := func(args ...string) string {
		cmd := command(args...)
		cmd.Env = append(cmd.Env, noConfig)
		out, _ := cmd.CombinedOutput() // what it says is looked at
		return string(out)
	}
	work := func() *exec.Cmd {
		cmd := command(append([]string{"work", "--slots", "4"}, workers...)...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		return cmd
	}
	// says waits until people are told something of a task.
	says := func(id, what string) {
		t.Helper()
		for deadline := time.Now().Add(watchdog); ; time.Sleep(200 * time.Millisecond) {
			out := people("tasks", "get", id)
			if strings.Contains(out, what) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("no %q:\n%s", what, out)
			}
		}
	}
	front := process(t, command(config...))
	front.open()
	classes := writeConfig(t, "fleet: {classes: [builds]}")
	if out, _ := command(append([]string{"tools"}, classes...)...).
		CombinedOutput(); !strings.Contains(string(out), "no worker of the config's classes announces any") {
		t.Errorf("%s", out)
	}
	bare := process(t, command(classes...)) // it has the workers' tools alone
	bare.open()
	// lists waits until the bare front lists a tool, or no more, and is told of it.
	lists := func(id int, listed bool) {
		t.Helper()
		for deadline := time.Now().Add(watchdog); ; id++ {
			bare.sendLine(`{"jsonrpc":"2.0","id":"list %d","method":"tools/list"}`, id)
			for { // a list that is not as wanted is asked for again when a change is told
				line := string(bare.line())
				if strings.Contains(line, `"id":`) && strings.Contains(line, `"hello"`) == listed {
					return
				}
				if strings.Contains(line, "tools/list_changed") {
					break
				}
			}
			if time.Now().After(deadline) {
				t.Fatalf("hello is listed: %t", !listed)
			}
		}
	}
	response := func() []byte {
		t.Helper()
		for {
			if line := front.line(); strings.Contains(string(line), `"id":`) {
				return line
			}
		}
	}
	calls := 0
	begin := func(tool string) string {
		t.Helper()
		calls++
		front.sendLine(`{"jsonrpc":"2.0","id":"call %d","method":"tools/call","params":{"name":"%s","arguments":{},"task":{}}}`, calls, tool)
		var created struct {
			Result struct {
				Task struct{ TaskID string } `json:"task"`
			} `json:"result"`
		}
		line := response()
		if err := json.Unmarshal(line, &created); err != nil || created.Result.Task.TaskID == "" {
			t.Fatalf("%v: %s", err, line)
		}
		return created.Result.Task.TaskID
	}
	answer := func(line string, args ...any) string {
		t.Helper()
		front.sendLine(line, args...)
		return string(response())
	}

	first, second := begin("slow"), begin("again")
	says(first, "waiting for a worker of class builds: 0 before it")
	says(second, "waiting for a worker of class builds: 1 before it")
	says(begin("nowhere"), "no worker of class nobody has taken it within 100ms (queueTimeout)")

	lists(0, false)
	one := work()
	says(second, "begun")
	lists(100, true)
	bare.sendLine(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"hello","arguments":{"who":"bare"}}}`)
	for line := ""; !strings.Contains(line, "hello bare"); line = string(bare.line()) {
	}
	if got := answer(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"hello","arguments":{"who":"you"}}}`); !strings.Contains(got, "hello you") {
		t.Errorf("%s", got)
	}
	if got := answer(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"hello","arguments":{"who":"too long"}}}`); !strings.Contains(got, `"isError":true`) || !strings.Contains(got, "who") {
		t.Errorf("the worker's schema is not looked at: %s", got)
	}
	if got := answer(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"confirmed","arguments":{}}}`); !strings.Contains(got, "must be confirmed") {
		t.Errorf("%s", got)
	}

	gone := begin("slow")
	says(gone, "begun")
	if got := answer(`{"jsonrpc":"2.0","id":4,"method":"tasks/cancel","params":{"taskId":"%s"}}`,
		gone); !strings.Contains(got, `"status":"cancelled"`) {
		t.Errorf("%s", got)
	}
	if err := one.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = one.Wait()
	two := work()
	says(first, " died (killed, or it crashed)")
	says(second, "worker:")
	if out := people("tasks", "get", first); !strings.Contains(out, "failed") ||
		!strings.Contains(out, "the worker ") {
		t.Errorf("%s", out)
	}
	for deadline := time.Now().Add(watchdog); !strings.HasPrefix(people("tasks", "tail", second),
		"begun\n[attempt 2 on "); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s", people("tasks", "tail", second))
		}
	}

	last := begin("slow")
	says(last, "begun")
	if got := answer(`{"jsonrpc":"2.0","id":5,"method":"tasks/cancel","params":{"taskId":"%s"}}`,
		second); !strings.Contains(got, `"status":"cancelled"`) {
		t.Errorf("%s", got)
	}
	if err := two.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	waits := begin("hello")
	says(waits, "waiting for a worker of class builds: 0 before it")
	if err := os.WriteFile(dir+"/go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := two.Wait(); err != nil {
		t.Error(err)
	}
	if out := people("tasks", "result", last); !strings.HasPrefix(out, "begun\ndone\n") {
		t.Errorf("%s", out)
	}
	says(waits, "waiting for")
	lists(200, false)
	if err := front.closeStdin(); err != nil {
		t.Fatal(err)
	}
	if _, code, err := front.finish(); err != nil || code != 0 {
		t.Errorf("exit code %d, %v", code, err)
	}
	if out := people("tasks", "cancel", waits); !strings.Contains(out, "cancelled") {
		t.Errorf("%s", out)
	}
}
