package e2e

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"runnel/rpc"
)

// Two runnels on one NATS server.
func TestNATSState(t *testing.T) {
	t.Parallel()
	shareState(t, builtProgram(t), append(environ(t), "RUNNEL_STATE="+startNATS(t)))
}

// shareState runs two runnels on one state: people (also in runnel top and runnel ui) and the other runnel
// see, follow and cancel a task, and one whose runnel was killed fails with what it had written.
func shareState(t *testing.T, program string, env []string) {
	t.Helper()
	config := writeConfig(t, `
tools:
  slow: {command: [sh, -c, "echo begun; sleep 600"]}
  quick: {command: [seq, "3"]}
  talks: {command: [sh, -c, "for i in one two three; do echo $i; sleep 0.2; done"]}
`)
	start := func() *session {
		cmd := exec.Command(program, config...)
		cmd.Env = env
		peer := process(t, cmd)
		peer.open()
		return peer
	}
	people := func(args ...string) (string, error) {
		cmd := exec.Command(program, args...)
		cmd.Env = append(env, noConfig)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	// begin calls a tool as a task.
	begin := func(peer *session, tool string) string {
		t.Helper()
		peer.sendLine(`{"jsonrpc":"2.0","id":"call %s","method":"tools/call","params":{"name":"%[1]s","task":{}}}`, tool)
		var created struct {
			Result struct {
				Task struct{ TaskID string } `json:"task"`
			} `json:"result"`
		}
		line := peer.response()
		if err := json.Unmarshal(line, &created); err != nil || created.Result.Task.TaskID == "" {
			t.Fatalf("%v: %s", err, line)
		}
		return created.Result.Task.TaskID
	}
	here, there := start(), start()

	quick := begin(here, "quick")
	if out, err := people("tasks", "wait", quick); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := people("tasks", "result", quick); err != nil || !strings.Contains(out, "1\n2\n3\n") {
		t.Errorf("%v: %s", err, out)
	}

	talks := begin(here, "talks")
	view := dialPage(t, "", rpc.DialOptions{Command: append([]string{program}, config...), Env: env,
		Version: "2026-07-28"})
	if text, status := view.follow(talks, func(string) {}); text != "one\ntwo\nthree\n" ||
		status != "completed" {
		t.Errorf("the live view of another runnel: %q, %s", text, status)
	}
	var found struct{ Matches []struct{ Line string } }
	if view.get(&found, "view_search",
		fmt.Sprintf(`{"taskId":%q,"pattern":"^T"}`, talks)); len(found.Matches) != 2 {
		t.Errorf("%+v", found)
	}
	var again struct{ TaskID string }
	view.get(&again, "view_again", fmt.Sprintf(`{"taskId":%q}`, talks))
	if text, _ := view.follow(again.TaskID, func(string) {}); text != "one\ntwo\nthree\n" {
		t.Errorf("run again: %q", text)
	}

	slow := begin(here, "slow")
	variables := func(s *session, set string) {
		s.sendLine(`{"jsonrpc":"2.0","id":"variables","method":"runnel/tasks/variables",`+
			`"params":{"taskId":"%s"%s}}`, slow, set)
	}
	for n, peer := range []*session{there, here, there} { // the last one sets nothing new
		variables(peer, fmt.Sprintf(`,"set":{"n%d":1}`, n%2))
		want := []string{`{"n0":1}`, `{"n0":1,"n1":1}`, `{"n0":1,"n1":1}`}[n]
		if line := peer.response(); !strings.Contains(string(line), `"variables":`+want) {
			t.Errorf("the runnels set variables in turn: %s, want %s", line, want)
		}
	}
	variables(there, `,"set":{"n2":1}`)
	there.response()
	variables(here, "")
	if line := here.response(); !strings.Contains(string(line), `"variables":{"n0":1,"n1":1,"n2":1}`) {
		t.Errorf("the runnel that runs the task shows %s", line)
	}
	there.sendLine(`{"jsonrpc":"2.0","id":2,"method":"tasks/cancel","params":{"taskId":"%s"}}`, slow)
	if line := there.response(); !strings.Contains(string(line), `"status":"cancelled"`) {
		t.Errorf("%s", line)
	}

	watched(t, program, env, begin(here, "slow"), "slow")

	lost := begin(here, "slow")
	for deadline := time.Now().Add(watchdog); ; time.Sleep(20 * time.Millisecond) {
		if out, _ := people("tasks", "get", lost); strings.Contains(out, "begun") ||
			strings.Contains(out, "6 bytes") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the output is not stored")
		}
	}
	if err := syscall.Kill(here.pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	out, _ := people("tasks", "wait", lost)
	if out += must(people("tasks", "get", lost)); !strings.Contains(out, "failed") ||
		!strings.Contains(out, "is gone") {
		t.Errorf("%s", out)
	}
	if err := there.closeStdin(); err != nil {
		t.Fatal(err)
	}
	if _, code, err := there.finish(); err != nil || code != 0 {
		t.Errorf("exit code %d, %v", code, err)
	}
}

func must(out string, _ error) string { return out }
