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
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
)

func TestMain(m *testing.M) {
	unix.Umask(0o022) // a state that the user's group may write is refused
	os.Exit(m.Run())
}

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

func TestSQLiteHidesForeignAndExpired(t *testing.T) {
	s := openStore(t, SQLiteOptions{})
	old := ended(logged("old"), mcp.TaskCompleted, "done")
	old.CreatedAt = time.Now().Add(-time.Hour)
	put(t, s, working("mine"), old)
	for _, c := range []struct{ owner, id string }{{"other", "mine"}, {"local", "old"}, {"local", "unknown"}} {
		if _, err := s.Get(t.Context(), c.owner, c.id); !errors.Is(err, ErrNotFound) {
			t.Errorf("%v: got %v, want ErrNotFound", c, err)
		}
	}
	if got := ids(t, s, 10); !slices.Equal(got, []string{"mine"}) {
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

func eventually(t testing.TB, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not happen")
		}
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
