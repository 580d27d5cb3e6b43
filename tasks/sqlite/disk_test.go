package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"runnel/internal/system"
	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/run"
	"runnel/tasks/statetest"
	"runnel/tasks/statetest/fake"
)

// onDisk runs the test again in a process of its own, with a disk of a size, and reports "" here and the
// disk's directory there.
func onDisk(t *testing.T, size string) string {
	t.Helper()
	const variable = "RUNNEL_TEST_DISK"
	if dir := os.Getenv(variable); dir != "" {
		return dir
	}
	dir := t.TempDir()
	flags := "-Urm" // as root of a namespace of one's own, where that is allowed
	if os.Geteuid() == 0 {
		flags = "-m"
	}
	mounted := func(args ...string) *exec.Cmd {
		const script = `mount -t tmpfs -o size="$1" none "$0" && shift && exec "$@"`
		cmd := exec.Command("unshare", append([]string{flags, "sh", "-c", script, dir, size}, args...)...)
		cmd.Env = append(os.Environ(), variable+"="+dir)
		return cmd
	}
	if out, err := mounted("true").CombinedOutput(); err != nil {
		t.Skipf("no disk can be mounted here: %v %s", err, out)
	}
	out, err := mounted(os.Args[0], "-test.v", "-test.run=^"+t.Name()+"$").CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
	return ""
}

// fill leaves no room on a disk.
func fill(t *testing.T, dir string) (file string) {
	t.Helper()
	file = filepath.Join(dir, "fill")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	for size := 1 << 20; size > 0; size /= 2 {
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
	}
	_ = f.Close()
	return file
}

// On a disk that others have filled nothing is deleted for it: new tasks are refused, with what to do, until
// there is room again.
func TestSQLiteOnAFullDisk(t *testing.T) {
	t.Parallel()
	dir := onDisk(t, "16m")
	if dir == "" {
		return
	}
	const stored = 100
	var log bytes.Buffer
	s := New(Options{Dir: filepath.Join(dir, "state"), Log: zerolog.New(&log)})
	defer s.Close()
	result := strings.Repeat("x", 32<<10)
	for i := range stored {
		task := statetest.Working(fmt.Sprint("old", i))
		task.Owner = fmt.Sprint("owner", i%2)
		statetest.Put(t, s, statetest.Ended(task, mcp.TaskCompleted, result))
	}
	running := statetest.Working("running")
	statetest.Put(t, s, running)
	file := fill(t, dir)
	for i := range 20 {
		task := statetest.Ended(statetest.Working(fmt.Sprint("new", i)), mcp.TaskCompleted,
			strings.Repeat("y", 1<<20))
		if err := statetest.TryPut(s, task); err == nil ||
			!strings.Contains(err.Error(), "free some of the disk") {
			t.Errorf("a task on a full disk: %v", err)
		}
	}
	left := 0
	for i := range stored {
		if got, err := s.Open(fmt.Sprint("owner", i%2)).Get(t.Context(), fmt.Sprint("old", i)); err == nil &&
			got.Outcome != nil {
			left++
		} else if !errors.Is(err, tasks.ErrNotFound) {
			t.Error(err)
		}
	}
	if left != stored {
		t.Errorf("%d of %d results are left", left, stored)
	}
	if n := strings.Count(log.String(), "the disk is full"); n != 1 {
		t.Errorf("told %d times:\n%s", n, &log)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	statetest.Put(t, s, statetest.Working("later"), statetest.Ended(running, mcp.TaskCompleted, result))
}

// On a disk that is wholly full nothing can be pruned, which says what to do; then all is, and the disk has
// its room back.
func TestPruneOnAFullDisk(t *testing.T) {
	t.Parallel()
	dir := onDisk(t, "64m")
	if dir == "" {
		return
	}
	const stored = 300
	o := Options{Dir: filepath.Join(dir, "state")}
	prune := func() (int, error) {
		s := New(o)
		defer s.Close()
		gone, _, err := s.Open("local").(*store).Forget(t.Context(), time.Now(), true)
		return len(gone), err
	}
	s := New(o)
	for i := range stored {
		task := statetest.Working(fmt.Sprint("old", i), strings.Repeat(strings.Repeat("o", 99)+"\n", 1000))
		statetest.Put(t, s, statetest.Ended(task, mcp.TaskCompleted, strings.Repeat("x", 32<<10)))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	file := fill(t, dir)
	if n, err := prune(); n != 0 || err == nil || !strings.Contains(err.Error(), "from 1 MiB on") {
		t.Errorf("pruned %d: %v", n, err)
	}
	info, err := os.Stat(file)
	if err == nil {
		err = os.Truncate(file, info.Size()-1<<20)
	}
	if err != nil {
		t.Fatal(err)
	}
	if n, err := prune(); n != stored || err != nil {
		t.Errorf("with 1 MiB of room pruned %d: %v", n, err)
	}
	if room := system.FreeRoom(dir); room < 40<<20 {
		t.Errorf("%d MiB are free", room>>20)
	}
}

// late is a state whose disk is full when the last output of a task is written, and not when its end is.
type late struct{ tasks.Shared }

func (s late) Put(ctx context.Context, t tasks.Task) error {
	if t.Status.Terminal() {
		t.Log.Fail(errors.New("the disk is full"))
	}
	return s.Shared.Put(ctx, t)
}

// A task whose last output could not be stored has not completed: that would say that all of it is there.
func TestLostOutputIsNotCompleted(t *testing.T) {
	s := New(Options{Dir: t.TempDir()})
	defer s.Close()
	r := statetest.NewRunner(t, run.Options{State: fake.State(late{statetest.Shared(s)})})
	run := statetest.Start(t, r, func(ctx context.Context, running *run.Run) run.Done {
		return run.Done{Result: mcp.Result("done"),
			Err: running.Log().Append(ctx, partials.Chunk{Data: []byte("output")})}
	})
	run.Delivered()
	<-run.Ended()
	for name, task := range map[string]tasks.Task{"told": run.Task(),
		"stored": statetest.Get(t, s, run.ID())} {
		if task.Status != mcp.TaskFailed || !strings.Contains(task.StatusMessage, "the disk is full") {
			t.Errorf("%s as %s %q", name, task.Status, task.StatusMessage)
		}
	}
	r.Close()
}
