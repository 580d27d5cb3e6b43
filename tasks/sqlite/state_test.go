package sqlite

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/statetest"
)

func openStore(t testing.TB, o Options) *State {
	t.Helper()
	if o.Dir == "" {
		o.Dir = filepath.Join(t.TempDir(), "state")
	}
	o.Log = zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel)
	s := New(o)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// die does to a store what the end of its process does: what is not written is lost, the lease lets go.
func (s *State) die() {
	s.mu.Lock()
	defer s.mu.Unlock()
	db := s.db
	s.db, s.closed = nil, true
	db.w.mu.Lock()
	db.w.due = nil
	db.w.jobs = nil
	db.w.stopping = true
	db.w.mu.Unlock()
	db.stopSweeper()
	db.sweeper.Wait()
	_ = db.w.close()
	_ = db.read.Close()
	db.lease.mu.Lock()
	defer db.lease.mu.Unlock()
	_ = db.lease.file.Close()
	awaitFree(db.lease)
	// A runner that goes on here must not make the file again.
	db.lease.path = filepath.Join(db.o.Dir, "ended", leaseDir, "none")
}

// awaitFree waits until a lease whose file was closed is free: a child that another test is just starting
// holds the file, and its lock, until its exec.
func awaitFree(l *lease) {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if !leaseHeld(filepath.Dir(l.path), l.name) {
			return
		}
	}
}

func TestState(t *testing.T) {
	t.Parallel()
	statetest.Run(t, func(t *testing.T) tasks.State { return openStore(t, Options{}) })
}

func TestForget(t *testing.T) { statetest.Forget(t, openStore(t, Options{})) }

func TestShared(t *testing.T) {
	t.Parallel()
	statetest.RunShared(t, func(t *testing.T) (here, there tasks.State) {
		dir := t.TempDir()
		return openStore(t, Options{Dir: dir}), openStore(t, Options{Dir: dir})
	})
}

func TestLimits(t *testing.T) {
	t.Parallel()
	statetest.RunLimits(t, func(t *testing.T, limits tasks.Limits) (here, there tasks.State) {
		dir := t.TempDir()
		return openStore(t, Options{Dir: dir, Limits: limits}),
			openStore(t, Options{Dir: dir, Limits: limits})
	})
}

// The next process finds everything that was put, byte for byte: status, result, log, segments.
func TestSQLiteKeepsAll(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a state % with ? odd # name")
	s := openStore(t, Options{Dir: dir})
	done, failed := statetest.Working("done", "one\n", "two\n"), statetest.Working("failed")
	statetest.Put(t, s, done, failed)
	if err := done.Log.Append(t.Context(),
		partials.Chunk{Kind: partials.Item, Data: []byte(`{"type":"image"}`)}); err != nil {
		t.Fatal(err)
	}
	given := statetest.Page(t, done.Segments, 0, 1000)
	done = statetest.Ended(done, mcp.TaskCompleted, "fine")
	done.Outcome.Result.StructuredContent = []byte(`{"exitCode":0}`)
	failed.Merge = true
	failed = statetest.Ended(failed, mcp.TaskFailed, "")
	failed.Outcome = &tasks.Outcome{Err: rpc.Errorf(-32602, "no such thing")}
	statetest.Put(t, s, done, failed,
		statetest.Ended(statetest.Working("at once", "x"), mcp.TaskCompleted, "at once"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	s = openStore(t, Options{Dir: dir})
	for _, want := range []tasks.Task{done, failed} {
		got := statetest.Get(t, s, want.ID)
		if got.Status != want.Status || got.StatusMessage != want.StatusMessage || got.TTL != want.TTL ||
			got.Merge != want.Merge ||
			!got.CreatedAt.Equal(want.CreatedAt) || got.Tool != want.Tool || got.Owner != want.Owner {
			t.Errorf("got %+v, want %+v", got, want)
		}
		g, err := tasks.EncodeOutcome(&got)
		w, err2 := tasks.EncodeOutcome(&want)
		if err != nil || err2 != nil || !bytes.Equal(g, w) {
			t.Errorf("outcome %s, want %s", g, w)
		}
	}
	if got := statetest.ReadAll(t, statetest.Get(t, s, "done").Log); got != "one\ntwo\n"+`{"type":"image"}` {
		t.Errorf("log %q", got)
	}
	if got := statetest.ReadAll(t, statetest.Get(t, s, "at once").Log); got != "x" {
		t.Errorf("log of a task whose first state is its last: %q", got)
	}
	again := statetest.Page(t, statetest.Get(t, s, "done").Segments, 0, 1000)
	if want := bytes.TrimSuffix(given.Content, []byte("]")); !bytes.HasPrefix(again.Content, want) ||
		again.Count != given.Count+1 || !again.Complete {
		t.Errorf("segments %s, want them to begin with %s", again.Content, want)
	}
}

// Output that is stored has its numbers there: who was sent some of it gets the rest after them, also when
// the client is slow, and when runnel is killed before more is written.
func TestSQLiteNumbersWhatItStores(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, Options{Dir: dir})
	task := statetest.Working("t")
	task.Merge = true
	statetest.Put(t, s, task)
	var want strings.Builder
	for i := range 200 {
		line := fmt.Sprintf("line %d %s\n", i, strings.Repeat("x", 1000))
		want.WriteString(line)
		if err := task.Log.Append(t.Context(), partials.Chunk{Data: []byte(line)}); err != nil {
			t.Fatal(err)
		}
	}
	statetest.Eventually(t, func() bool { return statetest.Get(t, s, "t").Log.Size() == task.Log.Size() })
	var got strings.Builder
	last := int64(0)
	read := func(line []byte) {
		for _, item := range segments(t, line) {
			text, _ := mcp.TextOf(item)
			got.WriteString(text)
			last++
		}
	}
	d, r := partials.NewSEP1905([]byte(`{"jsonrpc":"2.0"`), []byte("1"), "t", task.Segments),
		task.Log.NewReader(0)
	for last == 0 {
		b, _ := r.Next(8 << 10)
		if line := d.Encode(nil, b); len(line) > 0 {
			read(line)
		}
	}
	s.die()
	rest, err := statetest.Get(t, openStore(t, Options{Dir: dir}), "t").Segments.Resume(last, "t", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	read(fmt.Appendf(nil, `{"result":%s}`, rest))
	if rest, ok := strings.CutPrefix(got.String(), want.String()); !ok ||
		!strings.HasPrefix(rest, "the runnel that ran this task is gone") {
		t.Errorf("%d bytes came of %d", got.Len(), want.Len())
	}
}

// Files are for the user alone.
func TestSQLiteModes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "state")
	s := openStore(t, Options{Dir: dir})
	statetest.Put(t, s, statetest.Working("a"))
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

// Nothing is made before the first task: a client may start a server only to probe it.
func TestSQLiteOpensLate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	s := openStore(t, Options{Dir: dir})
	if s.Exists() {
		t.Error("it exists")
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory: %v", err)
	}
	statetest.Put(t, s, statetest.Working("a"))
	if !s.Exists() {
		t.Error("it does not exist after the first task")
	}
}

// A reader that fell behind reads from the store, and slows nobody.
func TestSQLiteReadersBehind(t *testing.T) {
	t.Parallel()
	s := openStore(t, Options{})
	task := statetest.Working("task")
	statetest.Put(t, s, task)
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
	statetest.Eventually(t, func() bool { return task.Log.Held() < 1<<20 })
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
		for _, c := range b.Chunks() {
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
	statetest.Put(t, s, statetest.Ended(task, mcp.TaskCompleted, "done"))
	if stored := statetest.ReadAll(t, statetest.Get(t, s, "task").Log); stored != want.String() {
		t.Errorf("stored %d bytes, want %d", len(stored), want.Len())
	}
}

// Migrations bring a state of every version that ever was to the newest. A state of an old version is made by
// the migrations up to it, since those never change.
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
		s := openStore(t, Options{Dir: dir})
		statetest.Put(t, s, statetest.Working("a"))
	}
}

// segments are those of a response.
func segments(t *testing.T, line []byte) []json.RawMessage {
	var m struct {
		Result struct {
			Content []json.RawMessage `json:"partial-content"`
		}
	}
	if err := json.Unmarshal(line, &m); err != nil {
		t.Errorf("%v: %s", err, line)
	}
	return m.Result.Content
}
