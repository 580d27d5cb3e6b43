package nats

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/engine"
	"runnel/tasks/statetest"
)

// The state that a runnel of version 1 has stored is found: testdata has the messages of its stream, as the
// binary of commit bc6407a has left them after a run of seq 1 3 and one of false. The tasks that it has left
// behind are found, too.
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
	var clock statetest.Clock
	state, gone := newState(t, url, at(&clock)), newState(t, url)
	sp := spaceOf(t, gone) // it makes the streams
	statetest.Put(t, gone, statetest.Working("left"))
	if err := statetest.Hide(gone, statetest.Working("hidden")); err != nil {
		t.Fatal(err)
	}
	sp.Stop()
	sp.unlease(t)
	// Version 1 marked tasks so.
	for hidden, old := range map[string]string{"left": "live.", "hidden": "hidden."} {
		if err := sp.Unmark(t.Context(),
			engine.Mark{ID: hidden, Keeper: gone.Keeper, Hidden: hidden == "hidden"}); err != nil {
			t.Fatal(err)
		}
		if _, err := gone.c.js.Publish(t.Context(), sp.subject(hidden, old+gone.Keeper), nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, stream := range []jetstream.Stream{sp.stream, sp.leases} {
		config := stream.CachedInfo().Config
		config.Metadata = map[string]string{schemaMember: "1", ownerMember: "local"}
		if _, err := gone.c.js.UpdateStream(t.Context(), config); err != nil {
			t.Fatal(err)
		}
	}
	now := spaceOf(t, state)
	if err := now.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	later(t, now, &clock)
	if got := statetest.Get(t, state, "left"); got.Status != mcp.TaskFailed {
		t.Errorf("%+v", got)
	}
	if _, err := now.Read(t.Context(), "hidden"); !errors.Is(err, tasks.ErrNotFound) {
		t.Errorf("a hidden one: %v", err)
	}
	if err := state.Open("local").Delete(t.Context(), "left"); err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		if _, err := state.c.js.PublishMsg(t.Context(),
			&nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data}); err != nil {
			t.Fatal(err)
		}
	}
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
}

// A stream of another version is refused.
func TestOtherVersions(t *testing.T) {
	t.Parallel()
	url := startServer(t, t.TempDir(), 0).ClientURL()
	state := newState(t, url)
	statetest.Put(t, state, statetest.Working("a"))
	for _, found := range []string{"3", "0"} {
		config := spaceOf(t, state).stream.CachedInfo().Config
		config.Metadata = map[string]string{schemaMember: found, ownerMember: "local"}
		if _, err := state.c.js.UpdateStream(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		if _, err := newState(t, url).Open("local").Get(t.Context(), "a"); !errors.As(err, new(tasks.Trouble)) ||
			!strings.Contains(err.Error(), `has version "`+found+`", and this runnel knows 2`) {
			t.Errorf("%s: %v", found, err)
		}
	}
}

func TestTooOld(t *testing.T) {
	for version, want := range map[string]bool{"2.9.10": true, "2.10.29": true, "1.4.1": true,
		"2.11.0": false, "2.12.2": false, "2.12.0-dev": false, "3.0.0": false, "": false, "dev": false} {
		if tooOld(version) != want {
			t.Errorf("%q: %v", version, !want)
		}
	}
}
