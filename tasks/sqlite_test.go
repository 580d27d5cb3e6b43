package tasks

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
)

func openStore(t testing.TB, o SQLiteOptions) *SQLite {
	t.Helper()
	if o.Dir == "" {
		o.Dir = filepath.Join(t.TempDir(), "state")
	}
	o.Log = zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel)
	s := NewSQLite(o)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// die does to a store what the end of its process does: what is not written is lost, the lease lets go.
func (s *SQLite) die() {
	s.mu.Lock()
	defer s.mu.Unlock()
	db := s.db
	s.db, s.closed = nil, true
	db.w.mu.Lock()
	db.w.due, db.w.jobs, db.w.stopping = nil, nil, true
	db.w.mu.Unlock()
	db.sweep.close()
	_ = db.w.close()
	_ = db.read.Close()
	_ = db.lease.file.Close()
}

// logged is a working task with a log and some output.
func logged(id string, output ...string) Task {
	t := working(id)
	t.Log = partials.NewLog(nil)
	t.Segments = partials.NewSegments(t.Log)
	for _, line := range output {
		if err := t.Log.Append(context.Background(), partials.Chunk{Data: []byte(line)}); err != nil {
			panic(err)
		}
	}
	return t
}

func ended(t Task, status mcp.TaskStatus, text string) Task {
	t.Log.Close()
	t.Status, t.StatusMessage = status, "message of "+t.ID
	t.Outcome = &Outcome{Result: mcp.Result(text)}
	t.Segments.Finish(partials.Ending{Rest: []mcp.ContentBlock{mcp.Text(text)}})
	return t
}

func readAll(t testing.TB, l *partials.Log) string {
	t.Helper()
	var b strings.Builder
	for pos := int64(0); pos < l.Size(); {
		batch, next, err := l.ReadAt(context.Background(), pos, 64<<10)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range batch.Chunks {
			b.Write(c.Data)
		}
		pos = next
	}
	return b.String()
}

func get(t testing.TB, s Store, id string) Task {
	t.Helper()
	task, err := s.Get(context.Background(), "local", id)
	if err != nil {
		t.Fatalf("%s: %v", id, err)
	}
	return task
}

func TestSQLitePages(t *testing.T) {
	s := openStore(t, SQLiteOptions{})
	var want []string
	for i := range 25 {
		task := working(fmt.Sprint("task", i))
		if i%5 == 4 {
			task.Owner = "other"
		} else {
			want = append(want, task.ID)
		}
		put(t, s, task)
	}
	for _, n := range []int{1, 7, 20, 26} {
		if got := ids(t, s, "local", n); !slices.Equal(got, want) {
			t.Fatalf("pages of %d: got %v, want %v", n, got, want)
		}
	}
	for i := range 20 {
		if err := s.Delete(t.Context(), fmt.Sprint("task", i)); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := ids(t, s, "local", 2), []string{"task20", "task21", "task22", "task23"}; !slices.Equal(got, want) {
		t.Fatalf("after deletions: got %v, want %v", got, want)
	}
	for _, cursor := range []string{"!", "-1", "zzzz"} {
		if _, _, err := s.List(t.Context(), "local", cursor, 1); !errors.Is(err, ErrCursor) {
			t.Errorf("cursor %q: got %v, want ErrCursor", cursor, err)
		}
	}
}

func TestSQLiteHidesForeignAndExpired(t *testing.T) {
	s := openStore(t, SQLiteOptions{})
	old := working("old")
	old.CreatedAt = time.Now().Add(-time.Hour)
	put(t, s, working("mine"), old)
	for _, c := range []struct{ owner, id string }{{"other", "mine"}, {"local", "old"}, {"local", "unknown"}} {
		if _, err := s.Get(t.Context(), c.owner, c.id); !errors.Is(err, ErrNotFound) {
			t.Errorf("%v: got %v, want ErrNotFound", c, err)
		}
	}
	if got := ids(t, s, "local", 10); !slices.Equal(got, []string{"mine"}) {
		t.Errorf("listed: %v", got)
	}
}

// What was put is there for the next process, byte for byte: status, result, log, segments.
func TestSQLiteKeepsAll(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a state % with ? odd # name")
	s := openStore(t, SQLiteOptions{Dir: dir})
	done, failed := logged("done", "one\n", "two\n"), logged("failed")
	put(t, s, done, failed)
	if err := done.Log.Append(t.Context(), partials.Chunk{Kind: partials.Item, Data: []byte(`{"type":"image"}`)}); err != nil {
		t.Fatal(err)
	}
	given := done.Segments.After(0, 1000)
	done = ended(done, mcp.TaskCompleted, "fine")
	done.Outcome.Result.StructuredContent = []byte(`{"exitCode":0}`)
	failed.Merge = true
	failed = ended(failed, mcp.TaskFailed, "")
	failed.Outcome = &Outcome{Err: rpc.Errorf(-32602, "no such thing")}
	put(t, s, done, failed, ended(logged("at once", "x"), mcp.TaskCompleted, "at once"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	s = openStore(t, SQLiteOptions{Dir: dir})
	for _, want := range []Task{done, failed} {
		got := get(t, s, want.ID)
		if got.Status != want.Status || got.StatusMessage != want.StatusMessage || got.TTL != want.TTL || got.Merge != want.Merge ||
			!got.CreatedAt.Equal(want.CreatedAt) || got.Tool != want.Tool || got.Owner != want.Owner {
			t.Errorf("got %+v, want %+v", got, want)
		}
		g, err := encodeOutcome(&got)
		w, err2 := encodeOutcome(&want)
		if err != nil || err2 != nil || !bytes.Equal(g, w) {
			t.Errorf("outcome %s, want %s", g, w)
		}
	}
	if got := readAll(t, get(t, s, "done").Log); got != "one\ntwo\n"+`{"type":"image"}` {
		t.Errorf("log %q", got)
	}
	if got := readAll(t, get(t, s, "at once").Log); got != "x" {
		t.Errorf("log of a task whose first state is its last: %q", got)
	}
	again := get(t, s, "done").Segments.After(0, 1000)
	if want := bytes.TrimSuffix(given.Content, []byte("]")); !bytes.HasPrefix(again.Content, want) || again.Count != given.Count+1 || !again.Complete {
		t.Errorf("segments %s, want them to begin with %s", again.Content, want)
	}
}

// Output that is stored has its numbers there: who was sent some of it gets the rest behind them, also when the client is slow, and
// when runnel is killed before more is written.
func TestSQLiteNumbersWhatItStores(t *testing.T) {
	for name, early := range map[string]bool{"begun so": true, "known when some is stored": false} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := openStore(t, SQLiteOptions{Dir: dir})
			task := logged("t")
			task.Merge = early
			put(t, s, task)
			var want strings.Builder
			for i := range 200 {
				line := fmt.Sprintf("line %d %s\n", i, strings.Repeat("x", 1000))
				want.WriteString(line)
				if err := task.Log.Append(t.Context(), partials.Chunk{Data: []byte(line)}); err != nil {
					t.Fatal(err)
				}
			}
			eventually(t, func() bool { return get(t, s, "t").Log.Size() == task.Log.Size() })
			task.Merge = true
			put(t, s, task)
			var got strings.Builder
			last := int64(0)
			read := func(line []byte) {
				for _, item := range segments(t, line) {
					text, _ := mcp.TextOf(item)
					got.WriteString(text)
					last++
				}
			}
			d, r := partials.NewSEP1905([]byte(`{"jsonrpc":"2.0"`), []byte("1"), "t", task.Segments), task.Log.NewReader(0)
			for last == 0 {
				b, _ := r.Next(8 << 10)
				if line := d.Encode(nil, b); len(line) > 0 {
					read(line)
				}
			}
			s.die()
			rest := get(t, openStore(t, SQLiteOptions{Dir: dir}), "t").Segments.Resume(last, "t", 1<<20)
			read(fmt.Appendf(nil, `{"result":%s}`, rest))
			if rest, ok := strings.CutPrefix(got.String(), want.String()); !ok || rest != goneMessage {
				t.Errorf("%d bytes came of %d", got.Len(), want.Len())
			}
		})
	}
}

// Files are for the user alone.
func TestSQLiteModes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "state")
	s := openStore(t, SQLiteOptions{Dir: dir})
	put(t, s, working("a"))
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		want := os.FileMode(0o600)
		if e.IsDir() {
			want = 0o700
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s: mode %v, want %v", path, info.Mode().Perm(), want)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A state that is removed while it is used takes no task any more, and no result: nobody would find them. It says so.
func TestSQLiteIsRemoved(t *testing.T) {
	for name, remove := range map[string]func(dir string) error{
		"removed": os.RemoveAll,
		"replaced": func(dir string) error {
			other := filepath.Join(dir, "other")
			return errors.Join(os.WriteFile(other, nil, 0o600), os.Rename(other, filepath.Join(dir, databaseFile)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, SQLiteOptions{})
			r := newRunner(t, Options{Store: s})
			done := make(chan struct{})
			running := start(t, r, func(context.Context, *Run) (*mcp.CallToolResult, string, error) {
				<-done
				return mcp.Result("fine"), "", nil
			})
			running.Deliver(delivered)
			if err := remove(s.o.Dir); err != nil {
				t.Fatal(err)
			}
			s.seen = time.Now().Add(-seenInterval)
			_, err := r.Start(t.Context(), Spec{Tool: "test", Handle: true, Work: untilDone})
			if err == nil || !strings.Contains(err.Error(), ErrRemoved.Error()) || !strings.Contains(err.Error(), s.o.Dir) {
				t.Errorf("a new task: %v", err)
			}
			close(done)
			<-running.Ended()
			if got, err := r.Get(t.Context(), running.ID()); err != nil || got.Status != mcp.TaskFailed || !strings.Contains(got.StatusMessage, ErrRemoved.Error()) {
				t.Errorf("a task that ends: %+v, %v", got, err)
			}
			if err := r.Settled(t.Context()); !errors.Is(err, ErrRemoved) {
				t.Errorf("its end: %v", err)
			}
		})
	}
}

// Nothing is made before the first task: a client may start a server only to probe it.
func TestSQLiteOpensLate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	s := openStore(t, SQLiteOptions{Dir: dir})
	if s.Exists() {
		t.Error("it exists")
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory: %v", err)
	}
	put(t, s, working("a"))
	if !s.Exists() {
		t.Error("it does not exist after the first task")
	}
}

func TestSQLiteWordsItsTroubles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	garbage, newer := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(garbage, databaseFile), bytes.Repeat([]byte("garbage "), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, SQLiteOptions{Dir: newer})
	put(t, s, working("a"))
	db, err := sql.Open("sqlite", dsn(filepath.Join(newer, databaseFile)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("PRAGMA user_version = 1000"); err != nil {
		t.Fatal(err)
	}
	_ = db.Close()
	for dir, says := range map[string]string{filepath.Join(file, "state"): "not a directory", garbage: "damaged", newer: "newer runnel"} {
		s := openStore(t, SQLiteOptions{Dir: dir})
		if err := s.Put(t.Context(), working("a")); err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

// What is wrong is said once, with what to do.
func TestExplainedOnce(t *testing.T) {
	full := explain(fmt.Errorf("writing: %w", unix.ENOSPC))
	want := "writing: no space left on device; free some of the disk, or name a directory on another one with --state"
	if again := explain(fmt.Errorf("opening: %w", full)); again.Error() != "opening: "+want || !errors.Is(again, unix.ENOSPC) {
		t.Errorf("%v, want opening: %s", again, want)
	}
	if err := explain(errors.New("other")); err.Error() != "other" {
		t.Errorf("%v", err)
	}
}

// The tasks of a process that is gone have failed, once, with what they wrote; those of a live one go on.
func TestSQLiteRecovers(t *testing.T) {
	dir := t.TempDir()
	gone, live := openStore(t, SQLiteOptions{Dir: dir}), openStore(t, SQLiteOptions{Dir: dir})
	lost, kept := logged("lost", "what it wrote\n"), logged("kept", "x")
	put(t, gone, lost, ended(logged("ended"), mcp.TaskCompleted, "whole result"))
	put(t, live, kept)
	eventually(t, func() bool { return get(t, live, "lost").Log.Size() > 0 })
	gone.die()

	var stores []*SQLite
	var all sync.WaitGroup
	for range 4 {
		s := openStore(t, SQLiteOptions{Dir: dir})
		stores = append(stores, s)
		all.Go(func() {
			if err := s.Open(); err != nil {
				t.Error(err)
			}
			if task, err := s.Get(context.Background(), "local", "lost"); err != nil || task.Status != mcp.TaskFailed {
				t.Errorf("lost: %s, %v", task.Status, err)
			}
		})
	}
	all.Wait()
	first := get(t, live, "lost")
	for _, s := range stores {
		task := get(t, s, "lost")
		if !task.UpdatedAt.Equal(first.UpdatedAt) || task.StatusMessage != goneMessage {
			t.Errorf("ended twice: %v %q, %v", task.UpdatedAt, task.StatusMessage, first.UpdatedAt)
		}
		if got := readAll(t, task.Log); got != "what it wrote\n" {
			t.Errorf("its log: %q", got)
		}
		if text, _ := mcp.TextOf(task.Outcome.Result.Content[0]); text != "what it wrote\n" || !task.Outcome.Result.IsError {
			t.Errorf("its result: %s", task.Outcome.Result.Content)
		}
		if page := task.Segments.After(0, 1000); page.Count != 2 || !page.Complete || !page.IsError {
			t.Errorf("its segments: %+v", page)
		}
		if task := get(t, s, "kept"); task.Status != mcp.TaskWorking || task.Outcome != nil {
			t.Errorf("the task of a live process: %+v", task)
		}
		if task := get(t, s, "ended"); task.Status != mcp.TaskCompleted {
			t.Errorf("a task that had ended: %+v", task)
		}
	}
	put(t, live, ended(kept, mcp.TaskCompleted, "fine"))
	if task := get(t, stores[0], "kept"); task.Status != mcp.TaskCompleted {
		t.Errorf("kept: %s", task.Status)
	}
	// The other side of it: an end that comes after others have ended the task is no end.
	stale := openStore(t, SQLiteOptions{Dir: dir})
	late := logged("late")
	put(t, stale, late)
	stale.db.lease.release()
	if task := get(t, live, "late"); task.Status != mcp.TaskFailed {
		t.Errorf("late: %s", task.Status)
	}
	if err := stale.Put(t.Context(), ended(late, mcp.TaskCompleted, "too late")); !errors.Is(err, ErrNotFound) {
		t.Errorf("an end after the end: %v", err)
	}
	if task := get(t, live, "late"); task.Status != mcp.TaskFailed {
		t.Errorf("late: %s", task.Status)
	}
}

func eventually(t testing.TB, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not happen")
		}
	}
}

// Who looks for a lease of a process that is gone is not misled by who removes it at the same time.
func TestLeaseWhileItIsRemoved(t *testing.T) {
	dir := t.TempDir()
	for range 300 {
		l, err := takeLease(dir)
		if err != nil {
			t.Fatal(err)
		}
		_ = l.file.Close()
		var all sync.WaitGroup
		all.Go(func() { dropDeadLeases(dir) })
		for range 3 {
			all.Go(func() {
				for range 10 {
					if leaseHeld(dir, l.name) {
						t.Error("a lease that is being removed counts as held")
					}
				}
			})
		}
		all.Wait()
	}
}

func TestLeases(t *testing.T) {
	dir := t.TempDir()
	var all sync.WaitGroup
	for range 8 { // takers and sweepers at once: nobody loses a lease that is held
		all.Go(func() {
			for range 50 {
				l, err := takeLease(dir)
				if err != nil {
					t.Error(err)
					return
				}
				dropDeadLeases(dir)
				if !leaseHeld(dir, l.name) {
					t.Error("a lease that is held counts as gone")
				}
				l.release()
				if leaseHeld(dir, l.name) {
					t.Error("a lease that was released counts as held")
				}
			}
		})
	}
	all.Wait()
	dead, err := takeLease(dir)
	if err != nil {
		t.Fatal(err)
	}
	_ = dead.file.Close()
	dropDeadLeases(dir)
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// A reader that fell behind reads from the store, and slows nobody.
func TestSQLiteReadersBehind(t *testing.T) {
	s := openStore(t, SQLiteOptions{})
	task := logged("task")
	put(t, s, task)
	slow := task.Log.NewReader(0)
	defer slow.Close()
	var want bytes.Buffer
	rng := rand.New(rand.NewPCG(1, 1))
	for want.Len() < 6<<20 {
		line := fmt.Sprintf("%d %s\n", want.Len(), strings.Repeat("x", rng.IntN(2000)))
		want.WriteString(line)
		if err := task.Log.Append(t.Context(), partials.Chunk{Data: []byte(line)}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, func() bool { return task.Log.Held() < 1<<20 })
	task.Log.Close()
	var got bytes.Buffer
	batches := 0
	for {
		err := slow.Wait(t.Context(), 1)
		if err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		b, _ := slow.Next(64 << 10)
		for _, c := range b.Chunks {
			got.Write(c.Data)
		}
		batches++
	}
	if !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Errorf("read %d bytes, want %d", got.Len(), want.Len())
	}
	if batches > 6<<20/(32<<10) {
		t.Errorf("%d batches for %d bytes: it should catch up in large ones", batches, want.Len())
	}
	put(t, s, ended(task, mcp.TaskCompleted, "done"))
	if stored := readAll(t, get(t, s, "task").Log); stored != want.String() {
		t.Errorf("stored %d bytes, want %d", len(stored), want.Len())
	}
}

// A job that is done again, since one beside it failed, is refused only if it is refused then.
func TestSQLiteRefusedIsNotKept(t *testing.T) {
	s := openStore(t, SQLiteOptions{})
	put(t, s, logged("task"))
	d, err := s.open()
	if err != nil {
		t.Fatal(err)
	}
	d.sweep.close() // it would queue, too
	broken := errors.New("broken")
	queue := func(write func()) {
		d.w.mu.Lock()
		n := len(d.w.jobs)
		d.w.mu.Unlock()
		go write()
		eventually(t, func() bool {
			d.w.mu.Lock()
			defer d.w.mu.Unlock()
			return len(d.w.jobs) == n+1
		})
	}
	busy, begun := make(chan struct{}), make(chan struct{})
	go d.w.do(job{do: func(*transaction) error { close(begun); <-busy; return nil }})
	<-begun
	again := false
	queue(func() {
		_ = d.w.do(job{do: func(tx *transaction) error {
			if again {
				return broken
			}
			again = true
			_, err := tx.exec("UPDATE task SET keeper = NULL WHERE id = 'task'") // as its end does
			return err
		}})
	})
	merged, refused := make(chan []byte, 1), make(chan error, 1)
	queue(func() {
		variables, err := s.SetVariables(t.Context(), "local", "task", []byte(`{"a":1}`))
		merged <- variables
		refused <- err
	})
	queue(func() { _ = d.w.do(job{do: func(*transaction) error { return broken }}) })
	close(busy)
	if variables, err := <-merged, <-refused; err != nil || string(variables) != `{"a":1}` {
		t.Errorf("%s, %v", variables, err)
	}
}

// Of a long log head and tail are kept.
func TestSQLiteLimitsLogs(t *testing.T) {
	s := openStore(t, SQLiteOptions{})
	task := logged("task")
	task.Log.Limit(1 << 20)
	put(t, s, task)
	var want bytes.Buffer
	for i := 0; want.Len() < 8<<20; i++ {
		line := fmt.Sprintf("line %d %0100d\n", i, i)
		want.WriteString(line)
		if err := task.Log.Append(t.Context(), partials.Chunk{Data: []byte(line)}); err != nil {
			t.Fatal(err)
		}
	}
	put(t, s, ended(task, mcp.TaskCompleted, "done"))
	l := get(t, s, "task").Log
	if l.Size() != int64(want.Len()) {
		t.Fatalf("size %d, want %d", l.Size(), want.Len())
	}
	var head, tail strings.Builder
	for pos, gap := int64(0), false; pos < l.Size(); {
		b, next, err := l.ReadAt(t.Context(), pos, 64<<10)
		if err != nil {
			t.Fatal(err)
		}
		gap = gap || b.Start > pos
		for _, c := range b.Chunks {
			if gap {
				tail.Write(c.Data)
			} else {
				head.Write(c.Data)
			}
		}
		pos = next
	}
	if n := head.Len(); n < 384<<10 || n > 512<<10 || !strings.HasPrefix(want.String(), head.String()) {
		t.Errorf("head of %d bytes", n)
	}
	if n := tail.Len(); n < 320<<10 || n > 640<<10 || !strings.HasSuffix(want.String(), tail.String()) {
		t.Errorf("tail of %d bytes", n)
	}
}

// The state stays below its limit: what ended first goes first, what runs stays.
func TestSQLiteLimitsItsSize(t *testing.T) {
	const limit = 8 << 20
	s := openStore(t, SQLiteOptions{MaxState: limit})
	running := logged("running", "still here")
	put(t, s, running)
	line := []byte(strings.Repeat("x", 1023) + "\n")
	for i := range 40 {
		task := logged(fmt.Sprint("ended", i))
		put(t, s, task)
		for range 1 << 10 {
			if err := task.Log.Append(t.Context(), partials.Chunk{Data: line}); err != nil {
				t.Fatalf("task %d: %v", i, err)
			}
		}
		put(t, s, ended(task, mcp.TaskCompleted, "done"))
	}
	info, err := os.Stat(filepath.Join(s.o.Dir, databaseFile))
	if err != nil || info.Size() > limit {
		t.Errorf("%d bytes, limit %d, %v", info.Size(), limit, err)
	}
	if got := readAll(t, get(t, s, "running").Log); got != "still here" {
		t.Errorf("the running task's log: %q", got)
	}
	if n := len(readAll(t, get(t, s, "ended39").Log)); n != 1<<20 {
		t.Errorf("the newest ended task has %d bytes", n)
	}
	if _, err := s.Get(t.Context(), "local", "ended0"); !errors.Is(err, ErrNotFound) {
		t.Errorf("the oldest: %v", err)
	}
}

// One running task that fills the state fails, with a reason; the others do not.
func TestSQLiteFullFailsTheTask(t *testing.T) {
	s := openStore(t, SQLiteOptions{MaxState: 4 << 20})
	r := NewRunner(Options{Store: s, Log: zerolog.Nop()})
	defer r.Close()
	small := start(t, r, untilDone)
	small.Deliver(delivered)
	big := start(t, r, func(ctx context.Context, run *Run) (*mcp.CallToolResult, string, error) {
		line := []byte(strings.Repeat("x", 1023) + "\n")
		for {
			if err := run.Log().Append(ctx, partials.Chunk{Data: line}); err != nil {
				return mcp.ErrorResult(err.Error()), "", nil
			}
		}
	})
	big.Deliver(delivered)
	<-big.Ended()
	if task := big.Task(); task.Status != mcp.TaskFailed || !strings.Contains(task.StatusMessage, "state.maxState") {
		t.Errorf("ended %s: %q", task.Status, task.StatusMessage)
	}
	if status := small.Task().Status; status != mcp.TaskWorking {
		t.Errorf("the other task: %s", status)
	}
	if _, err := s.Get(t.Context(), "local", big.ID()); err != nil {
		t.Error(err)
	}
	small.Cancel("enough")
	if task := get(t, s, small.ID()); task.Status != mcp.TaskCancelled {
		t.Errorf("the other task, cancelled: %s", task.Status)
	}
}

// Cancelling and waiting reach a task that another process runs.
func TestTaskElsewhere(t *testing.T) {
	dir := t.TempDir()
	here, there := NewRunner(Options{Store: openStore(t, SQLiteOptions{Dir: dir})}), NewRunner(Options{Store: openStore(t, SQLiteOptions{Dir: dir})})
	defer here.Close()
	defer there.Close()
	first, second := start(t, there, untilDone), start(t, there, func(context.Context, *Run) (*mcp.CallToolResult, string, error) {
		return mcp.Result("done there"), "", nil
	})
	first.Deliver(func(ctx context.Context) { <-ctx.Done() })
	got, err := here.Get(t.Context(), first.ID())
	if err != nil || got.Status != mcp.TaskWorking {
		t.Fatalf("%s, %v", got.Status, err)
	}
	if got, err = here.Cancel(t.Context(), first.ID()); err != nil || got.Status != mcp.TaskCancelled {
		t.Errorf("cancelled from elsewhere: %s, %v", got.Status, err)
	}
	<-first.Ended()
	if got, err = here.Cancel(t.Context(), first.ID()); !errors.Is(err, ErrEnded) {
		t.Errorf("cancelled again: %s, %v", got.Status, err)
	}
	awaited := make(chan Task)
	go func() {
		task, err := here.Await(context.Background(), second.ID())
		if err != nil {
			t.Error(err)
		}
		awaited <- task
	}()
	second.Deliver(delivered)
	if task := <-awaited; task.Status != mcp.TaskCompleted || task.Outcome == nil {
		t.Errorf("awaited from elsewhere: %+v", task)
	}
	other := NewRunner(Options{Store: openStore(t, SQLiteOptions{Dir: dir}), Owner: "other"})
	defer other.Close()
	if _, err := other.Cancel(t.Context(), second.ID()); !errors.Is(err, ErrNotFound) {
		t.Errorf("cancelled by somebody else: %v", err)
	}
}

// Two runnels on one state give one number to a segment of a task that one of them runs.
func TestNumbersElsewhere(t *testing.T) {
	dir := t.TempDir()
	here, there := newRunner(t, Options{Store: openStore(t, SQLiteOptions{Dir: dir})}), newRunner(t, Options{Store: openStore(t, SQLiteOptions{Dir: dir})})
	lines := make(chan string)
	run, err := here.Start(t.Context(), Spec{Handle: true, Merge: true, Work: func(ctx context.Context, run *Run) (*mcp.CallToolResult, string, error) {
		for line := range lines {
			if err := run.Log().Append(ctx, partials.Chunk{Data: []byte(line)}); err != nil {
				return nil, "", err
			}
		}
		run.Rest(nil)
		return &mcp.CallToolResult{}, "", nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	run.Delivered()
	page := func(r *Runner, last int64) string {
		task, err := r.Get(t.Context(), run.ID())
		if err != nil {
			t.Fatal(err)
		}
		return string(task.Segments.After(last, 1<<20).Content)
	}
	end := sync.OnceFunc(func() { close(lines) })
	defer end()
	lines <- "one\n"
	eventually(t, func() bool { return page(here, 0) != "[]" })
	want := `[{"seqNr":2,"type":"text","text":"two\n"}]`
	lines <- "two\n"
	eventually(t, func() bool { return page(there, 1) != "[]" })
	if got := page(there, 1); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	lines <- "three\n"
	eventually(t, func() bool { return page(there, 2) != "[]" })
	end()
	<-run.Ended()
	want = `[{"seqNr":2,"type":"text","text":"two\n"},{"seqNr":3,"type":"text","text":"three\n"}]`
	for _, r := range []*Runner{here, there} {
		if got := page(r, 1); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// Numbers that were stored since the end of the log was looked up are read with the next look, all of them.
func TestNumbersAreReadInWholeRows(t *testing.T) {
	s := openStore(t, SQLiteOptions{})
	task := logged("a")
	put(t, s, task)
	k := s.db.live["a"]
	for range 3 {
		if err := task.Log.Append(t.Context(), partials.Chunk{Data: []byte("ten bytes\n")}); err != nil {
			t.Fatal(err)
		}
		task.Segments.Number(task.Log.Size())
	}
	if err := s.db.w.do(k.job()); err != nil {
		t.Fatal(err)
	}
	var numbers []int64
	for _, end := range []int64{15, 30} {
		last := int64(0)
		if n := len(numbers); n > 0 {
			last = numbers[n-1]
		}
		more, err := k.loadSegments(t.Context(), len(numbers), last, end)
		if err != nil {
			t.Fatal(err)
		}
		numbers = append(numbers, more...)
		if n := len(numbers); n > 0 && numbers[n-1] > end {
			t.Errorf("numbers up to %d of a log that ends at %d", numbers[n-1], end)
		}
	}
	if want := []int64{10, 20, 30}; !slices.Equal(numbers, want) {
		t.Errorf("segments end at %v, want %v", numbers, want)
	}
}

// Migrations bring a state of every version that ever was to the newest. A state of an old version is made by the
// migrations up to it, since those never change.
func TestMigrationsFromEveryVersion(t *testing.T) {
	for version := range len(migrations) {
		dir := t.TempDir()
		db, err := sql.Open("sqlite", dsn(filepath.Join(dir, databaseFile)))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range migrations[:version] {
			if _, err := db.Exec(m); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := db.Exec(fmt.Sprintf("PRAGMA user_version = %d", version)); err != nil {
			t.Fatal(err)
		}
		_ = db.Close()
		s := openStore(t, SQLiteOptions{Dir: dir})
		put(t, s, working("a"))
	}
}

// A state is opened and read while another process holds the write lock: one that was stopped in a transaction does so for long.
func TestOpenWaitsForNoWriter(t *testing.T) {
	dir := t.TempDir()
	first := NewSQLite(SQLiteOptions{Dir: dir})
	defer first.Close()
	if err := first.Open(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", dsn(filepath.Join(dir, databaseFile)))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	stopped, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stopped.Close()
	if _, err := stopped.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	second := NewSQLite(SQLiteOptions{Dir: dir})
	if _, err := second.Get(t.Context(), "me", "unknown"); !errors.Is(err, ErrNotFound) {
		t.Errorf("reading: %v", err)
	}
	if _, err := stopped.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}

// Who waits for a process that was stopped in a transaction is not told that one after the other. Output, which nobody asks for yet, waits.
func TestBusyIsToldToAll(t *testing.T) {
	s := openStore(t, SQLiteOptions{})
	writes := logged("writes")
	put(t, s, writes)
	if err := s.db.w.do(job{do: func(tx *transaction) error {
		_, err := tx.exec("PRAGMA busy_timeout = 500")
		return err
	}}); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", dsn(filepath.Join(s.Dir(), databaseFile)))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	stopped, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stopped.Close()
	if _, err := stopped.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	if err := writes.Log.Append(t.Context(), partials.Chunk{Data: []byte("output\n")}); err != nil {
		t.Fatal(err)
	}
	const waiting = 200
	told := make(chan error, waiting)
	for i := range waiting {
		go func() { told <- s.Put(context.Background(), working(fmt.Sprint(i))) }()
	}
	watchdog := time.After(waiting * 500 * time.Millisecond / 2)
	for range waiting {
		select {
		case err := <-told:
			if err == nil || !strings.Contains(err.Error(), "another process has held the state locked") {
				t.Errorf("told %v", err)
			}
		case <-watchdog:
			t.Fatal("some are still not told")
		}
	}
	if err := writes.Log.Failed(); err != nil {
		t.Error(err)
	}
	if _, err := stopped.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return readAll(t, get(t, s, "writes").Log) == "output\n" })
}
