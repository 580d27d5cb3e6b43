package dynamodb

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"runnel/internal/dynatest"
	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/statetest"
)

// The state that a runnel of version 1 has stored is found: testdata has the items of its table, as the
// binary of commit 902d8cf has left them after a run of seq 3 and one of false.
func TestStateOfVersion1(t *testing.T) {
	t.Parallel()
	items, err := os.ReadFile("testdata/version1.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	s := dynatest.Start(t)
	for line := range strings.Lines(string(items)) {
		var stored map[string]struct {
			S, N *string
			B    []byte
		}
		if err := json.Unmarshal([]byte(line), &stored); err != nil {
			t.Fatal(err)
		}
		i := item{}
		for name, value := range stored {
			switch {
			case value.S != nil:
				i[name] = text(*value.S)
			case value.N != nil:
				i[name] = &types.AttributeValueMemberN{Value: *value.N}
			default:
				i[name] = data(value.B)
			}
		}
		if _, err := s.Client.PutItem(t.Context(),
			&dynamodb.PutItemInput{TableName: aws.String(dynatest.Table), Item: i}); err != nil {
			t.Fatal(err)
		}
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

// Where a newer runnel has stored something, or comes to do so, this one writes nothing once it has looked:
// each time it renews its lease.
func TestNewerVersion(t *testing.T) {
	t.Parallel()
	s := dynatest.Start(t)
	state := newState(t, s)
	task := statetest.Working("a")
	statetest.Put(t, state, task)
	stop(t, state)
	set(t, s, "schema", "schema", item{"version": number(2)})
	const sentence = "a newer runnel has changed how tasks are stored"
	if err := spaceOf(t, state, "local").Lease(t.Context()); err == nil ||
		!strings.Contains(err.Error(), sentence) {
		t.Errorf("the lease: %v", err)
	}
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
	for said, found := range map[string]types.AttributeValue{"2": number(2), "0": number(0),
		"unknown": text("garbage")} {
		set(t, s, "schema", "schema", item{"version": found})
		_, err := newState(t, s).Open("local").Get(t.Context(), "a")
		if !errors.As(err, new(tasks.Trouble)) ||
			!strings.Contains(err.Error(), `has version "`+said+`", and this runnel knows 1`) {
			t.Errorf("%s: %v", said, err)
		}
	}
	if left := keys(t, s, "task:b"); len(left) > 0 {
		t.Errorf("it has stored %q", left)
	}
}
