package main

import (
	"testing"

	"runnel/rpc/mcp"
)

// A prune leaves results that nobody has fetched: a client by tasks/result, or a person by "runnel tasks result". --force takes them too.
func TestPruneLeavesWhatNobodyFetched(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	host := newWitness(t, programCommand(t, "--selftest", "--state", state))
	start := func(tool string, arguments map[string]any) string {
		var created mcp.CreateTaskResult
		host.must(&created, "tools/call", map[string]any{"name": tool, "arguments": arguments, "task": map[string]any{}})
		return created.Task.TaskID
	}
	word := map[string]any{"text": "x"}
	byHost, byHand, never, runs := start("echo", word), start("echo", word), start("echo", word), start("sleep", map[string]any{"ms": 600000})
	in := func(args ...string) outcome {
		return people(t, append(append([]string{"tasks"}, args...), "--state", state)...)
	}
	for _, id := range []string{byHost, byHand, never} {
		in("wait", id).is(t, exitFine, id+" completed\n", "") // to wait is not to fetch
	}
	in("prune").is(t, exitFine, "", `^0 forgotten, 3 kept whose results nobody has fetched \(--force forgets them too\)\n$`)
	host.call("tasks/result", map[string]any{"taskId": byHost})
	in("result", byHand).is(t, exitFine, "x", "")
	in("prune").is(t, exitFine, `ID [^\n]*\n[^\n]+\n[^\n]+\n`, `^2 forgotten, 1 kept whose results`)
	in("result", never).is(t, exitFine, "x", "")

	in("rm", runs).is(t, exitFailure, "", "^runnel: task "+runs+" has not ended: end it with runnel tasks cancel "+runs+"\n$")
	in("rm", never).is(t, exitFine, "", "")
	in("get", never).is(t, exitFailure, "", "there is no task")
	last := start("fail", map[string]any{"message": "no"})
	in("wait", last).is(t, exitFailure, last+" failed\n", "")
	in("prune", "--force").is(t, exitFine, `ID [^\n]*\n[^\n]+\n`, "^1 forgotten\n$")
	host.kill()
}
