package run_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/run"
	"runnel/tasks/sqlite"
	"runnel/tasks/statetest"
)

// readInput is work that returns its input, in the order in which it came.
func readInput(opened chan<- struct{}) run.Work {
	return func(ctx context.Context, r *run.Run) run.Done {
		r.OpenInput()
		close(opened)
		var all bytes.Buffer
		for {
			in, err := r.NextInput(ctx)
			if errors.Is(err, io.EOF) {
				return run.Done{Result: mcp.Result(all.String())}
			} else if err != nil {
				return run.Done{Result: mcp.ErrorResult(err.Error())}
			}
			all.Write(in.Data)
			_ = r.Log().Append(ctx, partials.Chunk{Data: in.Data})
		}
	}
}

// sends sends numbered lines to a task, then the end, and returns them.
func sends(t *testing.T, runner *run.Runner, id string, lines int) string {
	t.Helper()
	v, release, err := runner.Follow(t.Context(), id)
	if err != nil || v == nil {
		t.Fatalf("following: %v, %v", v, err)
	}
	defer release()
	var all strings.Builder
	for n := range lines {
		line := fmt.Sprintf("line %d\n", n)
		all.WriteString(line)
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
			err := v.Send(t.Context(), tasks.Input{Data: []byte(line), EOF: n == lines-1})
			if err == nil {
				break
			}
			// It opens its input in a moment.
			if !errors.Is(err, tasks.ErrNoInput) && !errors.Is(err, tasks.ErrInputFull) ||
				time.Now().After(deadline) {
				t.Fatal(err)
			}
		}
	}
	return all.String()
}

// Input reaches a task in order and once, from the process that runs it and from another one, also after it
// was a call without a handle.
func TestInput(t *testing.T) {
	dir := t.TempDir()
	here, there := run.NewRunner(run.Options{State: openStore(t, sqlite.Options{Dir: dir})}),
		run.NewRunner(run.Options{State: openStore(t, sqlite.Options{Dir: dir})})
	defer here.Close()
	defer there.Close()
	for _, from := range []*run.Runner{there, here} {
		for range 2 {
			opened := make(chan struct{})
			r := statetest.Start(t, there, readInput(opened))
			r.Delivered()
			<-opened
			want := sends(t, from, r.ID(), 40)
			ended, err := there.Await(t.Context(), r.ID())
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := mcp.TextOf(ended.Outcome.Result.Content[0]); got != want {
				t.Errorf("it read %q, want %q", got, want)
			}
			if bytes.Contains(ended.Variables, []byte(tasks.InputPrefix+"piece")) {
				t.Errorf("input is left among the variables: %s", ended.Variables)
			}
		}
	}
}

// Input of a task that was handed to another process reaches that one, all of it: the process that has made the
// task takes none.
func TestInputOfADetachedTask(t *testing.T) {
	dir := t.TempDir()
	front, supervisor := run.NewRunner(run.Options{State: openStore(t, sqlite.Options{Dir: dir})}),
		run.NewRunner(run.Options{State: openStore(t, sqlite.Options{Dir: dir})})
	defer front.Close()
	defer supervisor.Close()
	for range 2 {
		taken := make(chan struct{})
		r := statetest.Start(t, front, func(ctx context.Context, r *run.Run) run.Done {
			err := r.Detach(ctx, func() error {
				there, err := supervisor.Take(ctx, r.ID(), []byte("{}"),
					run.Spec{Tool: "there", Work: readInput(make(chan struct{}))})
				if err == nil {
					there.Begin()
					there.Delivered()
				}
				return err
			})
			close(taken)
			if err != nil {
				return run.Done{Result: mcp.ErrorResult(err.Error())}
			}
			return run.Done{}
		})
		r.Delivered()
		<-taken
		want := sends(t, front, r.ID(), 20)
		ended, err := front.Await(t.Context(), r.ID())
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := mcp.TextOf(ended.Outcome.Result.Content[0]); got != want {
			t.Errorf("it read %q, want %q", got, want)
		}
	}
}

// A task in memory takes input, and its output goes on.
func TestInputInMemory(t *testing.T) {
	here := run.NewRunner(run.Options{})
	defer here.Close()
	for range 2 {
		opened := make(chan struct{})
		r := statetest.Start(t, here, readInput(opened))
		r.Delivered()
		<-opened
		want := sends(t, here, r.ID(), 10)
		ended, err := here.Await(t.Context(), r.ID())
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := mcp.TextOf(ended.Outcome.Result.Content[0]); got != want ||
			r.Log().Size() != int64(len(want)) {
			t.Errorf("it read %q, and wrote %d bytes, want %q", got, r.Log().Size(), want)
		}
	}
}

// A task that takes no input says so, to this process and to others; one whose program does not read takes 64
// KiB and no more.
func TestInputRefused(t *testing.T) {
	dir := t.TempDir()
	here, there := run.NewRunner(run.Options{State: openStore(t, sqlite.Options{Dir: dir})}),
		run.NewRunner(run.Options{State: openStore(t, sqlite.Options{Dir: dir})})
	defer here.Close()
	defer there.Close()
	deaf := statetest.Start(t, there, statetest.UntilDone)
	deaf.Delivered()
	opened := make(chan struct{})
	busy := statetest.Start(t, there, func(ctx context.Context, r *run.Run) run.Done {
		r.OpenInput()
		close(opened)
		<-ctx.Done()
		return run.Done{}
	})
	busy.Delivered()
	<-opened
	for range 2 {
		for _, from := range []*run.Runner{there, here} {
			v, release, err := from.Follow(t.Context(), deaf.ID())
			if err != nil {
				t.Fatal(err)
			}
			if err := v.Send(t.Context(), tasks.Input{Data: []byte("x")}); !errors.Is(err, tasks.ErrNoInput) {
				t.Errorf("a task without input: %v", err)
			}
			release()
		}
	}
	v := &busy.View
	half := bytes.Repeat([]byte("x"), tasks.MaxInput/2)
	sent := 0
	for ; sent < 4; sent++ {
		if err := v.Send(t.Context(), tasks.Input{Data: half}); err != nil {
			if !errors.Is(err, tasks.ErrInputFull) {
				t.Error(err)
			}
			break
		}
	}
	if sent == 0 || sent > 2 {
		t.Errorf("it took %d times 32 KiB, the limit is 64 KiB", sent)
	}
	if err := v.Send(t.Context(), tasks.Input{Data: make([]byte, tasks.MaxInput+1)}); err == nil {
		t.Error("a piece above the limit was taken")
	}
}
