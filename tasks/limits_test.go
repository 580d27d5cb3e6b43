package tasks

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"runnel/rpc"
	"runnel/rpc/mcp"
)

func TestWindowAllowsSoManyInAnyPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := window{limit: 3, period: time.Minute}
		var at []time.Time
		for range 600 {
			if w.take() {
				at = append(at, time.Now())
			}
			time.Sleep(time.Second)
		}
		if len(at) != 30 {
			t.Errorf("%d in ten minutes", len(at))
		}
		for i := 3; i < len(at); i++ {
			if at[i].Sub(at[i-3]) < time.Minute {
				t.Errorf("four within %v", at[i].Sub(at[i-3]))
			}
		}
	})
}

// Task events go to the log with ids and owner, and never with content.
func TestAuditLog(t *testing.T) {
	var log bytes.Buffer
	r := NewRunner(Options{Owner: "me", Limits: Limits{MaxLive: 1}, Log: zerolog.New(&log)})
	run := start(t, r, func(ctx context.Context, _ *Run) Done {
		<-ctx.Done()
		return Done{Result: mcp.Result("secret"), Status: "secret"}
	})
	if _, err := r.Start(t.Context(), Spec{Handle: true, Tool: "other", Work: untilDone}); err == nil {
		t.Error("not refused")
	}
	run.Cancel("")
	if _, err := r.taskResult(t.Context(), &rpc.Caller{Version: &mcp.Version{}}, mcp.TaskParams{TaskID: run.ID()}); err != nil {
		t.Error(err)
	}
	r.Close()
	if strings.Contains(log.String(), "secret") {
		t.Errorf("content in the log: %s", &log)
	}
	var events []string
	for line := range strings.Lines(log.String()) {
		var e struct{ Message, TaskID, Owner string }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if e.TaskID == "" || e.Owner != "me" {
			t.Errorf("without taskId or owner: %s", line)
		}
		events = append(events, e.Message)
	}
	if got := strings.Join(events, ", "); got != "task created, task refused, task ended, task result retrieved" {
		t.Errorf("events: %s", got)
	}
}
