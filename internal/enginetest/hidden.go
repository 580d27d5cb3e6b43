package enginetest

import (
	"context"
	"sync"
	"testing"

	"runnel/rpc/mcp"
	"runnel/tasks/engine"
	"runnel/tasks/statetest"
)

// HandleInTime shows that a task without a handle stays if its process comes back and gives it one, just when
// another process is about to forget it. sweep makes a space of there take the process of here for gone.
func HandleInTime(t *testing.T, here, there *engine.State, sweep func(sp *engine.Space)) {
	task := statetest.Working("a")
	if err := statetest.Hide(here, task); err != nil {
		t.Fatal(err)
	}
	mine, theirs := ready(t, here.Space(task.Owner)), ready(t, there.Space(task.Owner))
	mine.Stop() // both do nothing by themselves
	theirs.Stop()
	came := false
	theirs.Driver = late{theirs.Driver, sync.OnceFunc(func() {
		came = true
		if err := mine.Renew(t.Context()); err != nil {
			t.Error(err)
		}
		statetest.Put(t, here, task)
	})}
	sweep(theirs)
	if got := statetest.Get(t, here, "a"); !came || got.Status != mcp.TaskWorking {
		t.Errorf("it came back: %t; %s %s", came, got.Status, got.StatusMessage)
	}
}

// late is a store in which something happens just before a task is ended or deleted.
type late struct {
	engine.Driver
	before func()
}

func (l late) End(ctx context.Context, r *engine.Record, outcome []byte) error {
	l.before()
	return l.Driver.End(ctx, r, outcome)
}

func (l late) Delete(ctx context.Context, id string) error {
	l.before()
	return l.Driver.Delete(ctx, id)
}
