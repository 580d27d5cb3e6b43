package redis

import (
	"errors"
	"os"
	"strings"
	"testing"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/statetest"
)

// The state that a runnel of version 1 has stored is found: testdata has it as commands that make it, as the
// first binary that knew Redis has left it after a run of seq 1 3 and one of false.
func TestStateOfVersion1(t *testing.T) {
	t.Parallel()
	commands, err := os.ReadFile("testdata/version1.resp")
	if err != nil {
		t.Fatal(err)
	}
	s := startServer(t)
	c := dial(t, s)
	if _, err := c.conn.Write(commands); err != nil {
		t.Fatal(err)
	}
	for said := c.say(t, "PING"); said != "+PONG"; {
		if strings.HasPrefix(said, "-") {
			t.Fatal(said)
		}
		line, err := c.r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		said = strings.TrimSpace(line)
	}
	state := newState(t, s)
	ids := statetest.IDs(t, state, 10)
	if len(ids) != 2 {
		t.Fatalf("it has the tasks %v", ids)
	}
	lines, fails := statetest.Get(t, state, ids[0]), statetest.Get(t, state, ids[1])
	if lines.Tool != "lines" || lines.Status != mcp.TaskCompleted ||
		statetest.ReadAll(t, lines.Log) != "1\n2\n3\n" || lines.Outcome.Result == nil {
		t.Errorf("%+v", lines)
	}
	if fails.Tool != "fails" || fails.Status != mcp.TaskFailed || fails.Outcome.Result == nil ||
		!fails.Outcome.Result.IsError {
		t.Errorf("%+v", fails)
	}
	statetest.Put(t, state, statetest.Working("new"))
}

// Where a newer runnel has stored something, or comes to do so, this one writes nothing.
func TestNewerVersion(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	state := newState(t, s)
	task := statetest.Working("a")
	statetest.Put(t, state, task)
	do(t, state, "SET", "runnel:local:schema", "2")
	const sentence = "a newer runnel has changed how tasks are stored"
	if err := state.Open(tasks.DefaultOwner).Put(t.Context(), statetest.Working("b")); err == nil ||
		!strings.Contains(err.Error(), sentence) {
		t.Errorf("put: %v", err)
	}
	if err := task.Log.Append(t.Context(), partials.Chunk{Data: []byte("line\n")}); err != nil {
		t.Fatal(err)
	}
	if err := state.Open(tasks.DefaultOwner).Put(t.Context(), statetest.Ended(task, mcp.TaskCompleted, "done")); err == nil ||
		!strings.Contains(err.Error(), sentence) {
		t.Errorf("an end: %v", err)
	}
	for _, found := range []string{"2", "0", "garbage"} {
		do(t, state, "SET", "runnel:local:schema", found)
		if _, err := newState(t, s).Open("local").Get(t.Context(), "a"); !errors.As(err, new(tasks.Trouble)) ||
			!strings.Contains(err.Error(), `has version "`+found+`", and this runnel knows 1`) {
			t.Errorf("%s: %v", found, err)
		}
	}
	if keys := do(t, state, "KEYS", "*:b"); keys != "[]" {
		t.Errorf("it has stored %s", keys)
	}
}
