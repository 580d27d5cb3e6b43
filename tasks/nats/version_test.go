package nats

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/statetest"
)

// What a runnel of version 1 has stored is found: testdata has the messages of its stream, as the binary of commit bc6407a has left them
// after a run of seq 1 3 and one of false.
func TestStateOfVersion1(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/version1.json")
	if err != nil {
		t.Fatal(err)
	}
	var messages []struct {
		Subject string
		Header  nats.Header
		Data    []byte
	}
	if err := json.Unmarshal(text, &messages); err != nil {
		t.Fatal(err)
	}
	url := startServer(t, t.TempDir(), 0).ClientURL()
	state := newState(t, url)
	spaceOf(t, state) // it makes the stream
	for _, m := range messages {
		if _, err := state.c.js.PublishMsg(t.Context(), &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data}); err != nil {
			t.Fatal(err)
		}
	}
	ids := statetest.IDs(t, state, 10)
	if len(ids) != 2 {
		t.Fatalf("it has the tasks %v", ids)
	}
	lines, fails := statetest.Get(t, state, ids[0]), statetest.Get(t, state, ids[1])
	if lines.Tool != "lines" || lines.Status != mcp.TaskCompleted || statetest.ReadAll(t, lines.Log) != "1\n2\n3\n" || lines.Outcome.Result == nil {
		t.Errorf("%+v", lines)
	}
	if fails.Tool != "fails" || fails.Status != mcp.TaskFailed || fails.Outcome.Result == nil || !fails.Outcome.Result.IsError {
		t.Errorf("%+v", fails)
	}
}

// A stream of another version is refused.
func TestOtherVersions(t *testing.T) {
	t.Parallel()
	url := startServer(t, t.TempDir(), 0).ClientURL()
	state := newState(t, url)
	statetest.Put(t, state, statetest.Working("a"))
	for _, found := range []string{"2", "0"} {
		config := spaceOf(t, state).stream.CachedInfo().Config
		config.Metadata = map[string]string{schemaMember: found, ownerMember: "local"}
		if _, err := state.c.js.UpdateStream(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		if _, err := newState(t, url).Get(t.Context(), "local", "a"); !errors.As(err, new(tasks.Trouble)) || !strings.Contains(err.Error(), "has version "+found+", and this runnel knows 1") {
			t.Errorf("%s: %v", found, err)
		}
	}
}
