package statetest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/files"
)

// bytesOf returns n bytes that no text could be.
func bytesOf(n int, seed byte) []byte {
	data := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(data) // never fails
	return data
}

// keep stores files of a task, each of which is named by its number, and one that does not count.
func keep(t *testing.T, s tasks.State, of tasks.Task, contents ...[]byte) {
	t.Helper()
	w := files.Create(s.Open(owner), of, 1<<20)
	for i, content := range contents {
		f, err := w.Write(t.Context(), bytes.NewReader(content))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(t.Context(), bytes.NewReader(content[:len(content)/2])); err != nil {
			t.Fatal(err)
		}
		f.Name = fmt.Sprint("dir/", i)
		w.Keep(f)
	}
	if _, err := w.Write(t.Context(), bytes.NewReader(make([]byte, 1<<20))); !errors.Is(err, files.ErrFull) {
		t.Errorf("more than the limit: %v", err)
	}
	if err := w.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// read compares the files of a task, as a whole and from some positions on.
func read(t *testing.T, s tasks.State, id string, contents ...[]byte) {
	t.Helper()
	set, err := files.Open(t.Context(), s.Open(owner), id)
	if err != nil {
		t.Fatal(err)
	}
	if len(set.Files) != len(contents) {
		t.Fatalf("%d files, want %d", len(set.Files), len(contents))
	}
	for i, content := range contents {
		f, err := set.Find(fmt.Sprint("dir/", i))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(content)
		if f.Size != int64(len(content)) || f.SHA256 != hex.EncodeToString(sum[:]) {
			t.Errorf("%+v", f)
		}
		r := set.Reader(t.Context(), f)
		for _, from := range []int{0, len(content) / 2, 1, len(content) - 1, 2, len(content) / 3,
			len(content)} {
			from = max(from, 0)
			var got []byte
			err := again(t.Context(), func() (err error) {
				if _, err = r.Seek(int64(from), io.SeekStart); err == nil {
					got, err = io.ReadAll(r)
				}
				return err
			})
			if err != nil || !bytes.Equal(got, content[min(from, len(content)):]) {
				t.Errorf("file %d from %d: %d bytes, want %d, %v", i, from, len(got), len(content)-from, err)
			}
		}
	}
}

// The files of a task are read as they were written, by their owner, until it is deleted or has expired.
func keepsFiles(t *testing.T, s tasks.State) {
	contents := [][]byte{bytesOf(200_001, 1), []byte("text\n"), {}, bytesOf(64<<10, 2)}
	for _, id := range []string{"one", "two"} {
		Put(t, s, Working(id))
		keep(t, s, Get(t, s, id), contents...)
		for range 2 {
			read(t, s, id, contents...)
		}
		if _, err := files.Open(t.Context(), s.Open("other"), id); !errors.Is(err, tasks.ErrNotFound) {
			t.Errorf("of another owner: %v", err)
		}
	}
	if err := s.Open(owner).Delete(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	if _, err := files.Open(t.Context(), s.Open(owner), "one"); !errors.Is(err, tasks.ErrNotFound) {
		t.Errorf("of a deleted task: %v", err)
	}
	read(t, s, "two", contents...)

	none := files.Create(s.Open(owner), Get(t, s, "two"), 10)
	if err := none.Close(t.Context()); err != nil {
		t.Error(err)
	}
	read(t, s, "two", contents...) // a writer that has written nothing changes nothing

	old := Working("old")
	old.TTL = time.Minute
	Put(t, s, old)
	old.CreatedAt = time.Now().Add(-old.TTL)
	keep(t, s, old, contents[1])
	if _, err := files.Open(t.Context(), s.Open(owner), "old"); !errors.Is(err, tasks.ErrNotFound) {
		t.Errorf("of an expired task: %v", err)
	}
}

// Files that one process has written are read by another one, and not found before they are complete.
func filesElsewhere(t *testing.T, here, there tasks.State) {
	contents := [][]byte{bytesOf(100_000, 3), []byte("text\n")}
	for _, id := range []string{"one", "two"} {
		task := Working(id)
		Put(t, here, task)
		none := Working(id + "-aborted")
		Put(t, here, none)
		w := files.Create(here.Open(owner), none, 1<<20)
		if _, err := w.Write(t.Context(), bytes.NewReader(contents[0])); err != nil {
			t.Fatal(err)
		}
		if _, err := files.Open(t.Context(), there.Open(owner), none.ID); !errors.Is(err, tasks.ErrNotFound) {
			t.Errorf("before they are complete: %v", err)
		}
		w.Abort()
		keep(t, here, task, contents...)
		Put(t, here, Ended(task, mcp.TaskCompleted, "done"))
		for range 2 {
			read(t, there, id, contents...)
		}
	}
}

// A process that another one has replaced leaves the files of the new attempt alone, however its own end.
func filesOfAnAttempt(t *testing.T, here, there tasks.Queues) {
	content := bytesOf(100_000, 4)
	for id, end := range map[string]func(w *files.Writer){
		"aborted": func(w *files.Writer) { w.Abort() },
		"none":    func(w *files.Writer) { _ = w.Close(t.Context()) }, // no file was kept
		"closed": func(w *files.Writer) {
			w.Keep(files.File{Name: "late"})
			if err := w.Close(t.Context()); err == nil {
				t.Error("the files of a process that was replaced are stored")
			}
		},
	} {
		task := Working(id)
		Put(t, here, task)
		late := files.Create(here.Open(owner), task, 1<<20)
		if _, err := late.Write(t.Context(), bytes.NewReader(content)); err != nil {
			t.Fatal(err)
		}
		task.Attempt = 2
		keep(t, there, task, content)
		end(late)
		read(t, there, id, content)
	}
}

// pruned shows that the files of a task that is forgotten are deleted with it, and count for no task.
func pruned(t *testing.T, s tasks.State) {
	t.Helper()
	task := Working("with")
	Put(t, s, task)
	keep(t, s, task, []byte("text\n"))
	Put(t, s, Ended(task, mcp.TaskCompleted, "done"))
	if ids := IDs(t, s, 10); !slices.Contains(ids, tasks.FilesID("with")) {
		t.Errorf("listed: %v", ids)
	}
	later := time.Now().Add(time.Hour)
	if gone, kept, err := s.Open(owner).(forgetter).Forget(t.Context(), later, false); err != nil ||
		len(gone) != 0 || kept != 1 {
		t.Errorf("%v, %d kept, %v", gone, kept, err)
	}
	read(t, s, "with", []byte("text\n"))
	if gone, kept, err := s.Open(owner).(forgetter).Forget(t.Context(), later, true); err != nil ||
		len(gone) != 1 || kept != 0 {
		t.Errorf("forced: %v, %d kept, %v", gone, kept, err)
	}
	if ids := IDs(t, s, 10); len(ids) > 0 {
		t.Errorf("left: %v", ids)
	}
}
