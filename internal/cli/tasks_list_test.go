package cli

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"runnel/rpc/mcp"
	"runnel/tasks"
)

// An id is shown as short as it can be.
func TestShortIDs(t *testing.T) {
	var list []tasks.Task
	for _, id := range []string{"aaaaaaaa-1", "aaaaaaaa-2", "bbbbbbbb-12", "bbbbbbbb-13", "bbbbbbbb-2",
		"cccccccc-1", "dddd", "dddd"} {
		list = append(list, tasks.Task{ID: id})
	}
	short := shortIDs(list)
	for id, want := range map[string]string{"aaaaaaaa-1": "aaaaaaaa-1", "bbbbbbbb-13": "bbbbbbbb-13",
		"bbbbbbbb-2": "bbbbbbbb-2", "cccccccc-1": "cccccccc", "dddd": "dddd"} {
		if short[id] != want {
			t.Errorf("%s: %q, want %q", id, short[id], want)
		}
	}
}

// A burst of calls does not hide what runs. Few that are alike stay apart, and so do those that have not
// ended.
func TestGroupedTasks(t *testing.T) {
	var list []tasks.Task
	add := func(n int, tool string, status mcp.TaskStatus, message string) {
		for range n {
			list = append(list, tasks.Task{ID: fmt.Sprint(len(list)), Tool: tool, Status: status,
				StatusMessage: message})
		}
	}
	add(200, "echo", mcp.TaskCompleted, "")
	add(5, "build", mcp.TaskWorking, "line")
	add(3, "echo", mcp.TaskCompleted, "")
	add(4, "echo", mcp.TaskFailed, "exit code 1\nmore")
	var shown []string
	for _, task := range grouped(list) {
		message, _, _ := strings.Cut(task.StatusMessage, "\n")
		shown = append(shown, task.ID+" "+message)
	}
	want := []string{"199 (the newest of 200) ", "200 line", "201 line", "202 line", "203 line", "204 line",
		"205 ", "206 ", "207 ", "211 (the newest of 4) exit code 1"}
	if !slices.Equal(shown, want) {
		t.Errorf("%q, want %q", shown, want)
	}
}

// The tasks of a tool, those that failed, and their ids alone; commands that take several ids go on after one
// that fails.
func TestListedTasks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	state := []string{"--state", filepath.Join(dir, "state")}
	run := func(args ...string) outcome { return runCommand(t, append(args, state...)...) }
	run("tasks", "list", "-q").is(t, exitFine, "", "")
	for range 2 {
		run("call", "fine", "--task", "--tool", "fine=true").is(t, exitFine, "", ".*")
		run("call", "wrong", "--task", "--tool", "wrong=false").is(t, exitFailure, "", ".*")
	}
	const id = `[0-9a-f-]{36}\n`
	run("tasks", "list", "-q").is(t, exitFine, "("+id+"){4}", "")
	run("tasks", "list", "--tool", "fine", "--failed", "-q").is(t, exitFine, "", "")
	run("tasks", "list", "--failed").is(t, exitFine, "ID [^\n]*\n([^\n]* failed +wrong [^\n]*\n){2}", "")
	run("tasks", "list", "-q", "-o", "json").is(t, exitUsage, "", "-q does not go with -o or --watch")
	failed := run("tasks", "list", "--failed", "-q")
	failed.is(t, exitFine, "("+id+"){2}", "")
	fine := strings.Fields(run("tasks", "list", "--tool", "fine", "-q").stdout)
	ids := append(fine, strings.Fields(failed.stdout)...)
	run(append([]string{"tasks", "wait"}, ids...)...).
		is(t, exitFailure, "("+id[:len(id)-2]+" completed\n){2}("+id[:len(id)-2]+" failed\n){2}", "")
	run(append([]string{"tasks", "get", "-o", "json"}, ids...)...).
		is(t, exitFine, `(\{"taskId":[^\n]*\n){4}`, "")
	run("tasks", "wait", ids[2], "nosuch", ids[0]).
		is(t, exitFailure, ".* failed\n.* completed\n", "there is no task nosuch")
	run("tasks", "cancel", ids[0], ids[1]).is(t, exitFailure, "", "(?s)had already ended.*had already ended")
	run(append([]string{"tasks", "rm"}, fine...)...).is(t, exitFine, "", "")
	run("tasks", "list", "-q").is(t, exitFine, "("+id+"){2}", "")
	run("tasks", "tail", ids[2], ids[3]).is(t, exitUsage, "", "unknown argument")
}

// The list says how a question is answered only where that is so: not one that was answered, nor that of a
// plain call, which its client alone answers.
func TestListSaysHowToAnswer(t *testing.T) {
	const question = `"runnel/question/question-1":{"method":"elicitation/create","message":"Sure?"}`
	for variables, says := range map[string]string{"": "  Sure?", "{" + question + "}": "  (runnel tasks answer 4d8a223b) Sure?",
		"{" + question + `,"runnel/answer/question-1":{"result":{}}}`: "  (answered) Sure?"} {
		table := tasksTable([]tasks.Task{{ID: "4d8a223b-1", Tool: "deploy", Status: mcp.TaskInputRequired,
			StatusMessage: "Sure?", Variables: json.RawMessage(variables)}})
		if !strings.HasSuffix(table, says+"\n") {
			t.Errorf("%s: %s", variables, table)
		}
	}
}
