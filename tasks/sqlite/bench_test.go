package sqlite

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"runnel/partials"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
	"runnel/tasks/run"
	"runnel/tasks/statetest"
)

// BenchmarkSQLiteTasks is the cost of a task from its first status to its last, 64 at a time, on disk.
func BenchmarkSQLiteTasks(b *testing.B) {
	s := openStore(b, Options{Dir: b.TempDir(), Limits: tasks.Limits{MaxLive: 2000}})
	const together = 64
	var wg sync.WaitGroup
	var next atomic.Int64
	b.ReportAllocs()
	b.ResetTimer()
	for range together {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				// The ids decide how many pages a commit writes.
				t := statetest.Working(tasks.NewID(time.Now()))
				if err := s.Open("local").Put(context.Background(), t); err != nil {
					b.Error(err)
				}
				t.Log.Close()
				if err := s.Open("local").Put(context.Background(),
					statetest.Ended(t, mcp.TaskCompleted, "hello")); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// Does a task cost the same however many are stored?
func BenchmarkSQLiteGrowth(b *testing.B) {
	for _, stored := range []int{10, 1000, 100_000} {
		s := openStore(b, Options{Dir: b.TempDir()})
		var wg sync.WaitGroup
		for part := range 64 {
			wg.Go(func() {
				for i := part; i < stored; i += 64 {
					t := statetest.Ended(statetest.Working(fmt.Sprint("old", i)), mcp.TaskCompleted, "hello")
					t.Log.Close()
					if err := statetest.TryPut(s, t); err != nil {
						b.Error(err)
					}
				}
			})
		}
		wg.Wait()
		_, middle, err := s.Open("local").List(context.Background(), tasks.OldestFirst, "", max(min(stored/2, 5000), 1))
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("%d/get", stored), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				if _, err := s.Open("local").Get(context.Background(), fmt.Sprint("old", i%stored)); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("%d/list", stored), func(b *testing.B) {
			for b.Loop() {
				if _, _, err := s.Open("local").List(context.Background(), tasks.OldestFirst, middle, 10); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("%d/newest", stored), func(b *testing.B) {
			for b.Loop() {
				if page, _, err := s.Open("local").List(context.Background(), tasks.NewestFirst, "", 200); err != nil ||
					len(page) != min(stored, 200) {
					b.Fatal(len(page), err)
				}
			}
		})
		b.Run(fmt.Sprintf("%d/expire", stored), func(b *testing.B) {
			i := 0
			for b.Loop() {
				b.StopTimer()
				i++
				t := statetest.Working(fmt.Sprintf("new%d-%d", b.N, i))
				t.TTL, t.CreatedAt = time.Second, time.Now().Add(-time.Minute)
				t = statetest.Ended(t, mcp.TaskCompleted, "hello")
				t.Log.Close()
				if err := statetest.TryPut(s, t); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				if err := s.db.sweep(context.Background()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Does it cost the same to find the tasks of earlier sessions, however many are stored? Where the last 200 are
// of other directories, that is what is looked at.
func BenchmarkSQLiteEarlier(b *testing.B) {
	for _, stored := range []int{1000, 4000, 16_000} {
		s := openStore(b, Options{Dir: b.TempDir()})
		var wg sync.WaitGroup
		for part := range 64 {
			wg.Go(func() {
				for i := part; i < stored; i += 64 {
					t := statetest.Working(fmt.Sprint("old", i))
					t.Variables = rawjson.Encode(map[string]string{tasks.PlaceNote: "here"})
					t = statetest.Ended(t, mcp.TaskCompleted, "hello")
					t.Log.Close()
					if err := statetest.TryPut(s, t); err != nil {
						b.Error(err)
					}
				}
			})
		}
		wg.Wait()
		for place, found := range map[string]int{"here": 50, "elsewhere": 0} {
			r := run.NewRunner(run.Options{State: s, Owner: "local", Place: place})
			b.Run(fmt.Sprintf("%d/%s", stored, place), func(b *testing.B) {
				for b.Loop() {
					if page, _, err := r.Earlier(b.Context(), 50, ""); err != nil || len(page) != found {
						b.Fatal(len(page), err)
					}
				}
			})
			r.Close()
		}
	}
}

// Does a chunk cost the same however long the log is? An extent is 64 KiB; the log goes to 1 GB.
func BenchmarkSQLiteLog(b *testing.B) {
	s := openStore(b, Options{Dir: b.TempDir(), MaxState: 4 << 30})
	t := statetest.Working("long")
	if err := s.Open("local").Put(context.Background(), t); err != nil {
		b.Fatal(err)
	}
	line := []byte("chunk 000123 xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n")
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		if err := t.Log.Append(context.Background(), partials.Chunk{Data: line}); err != nil {
			b.Fatal(err)
		}
	}
}

// Does it cost the same to look at a task that has ended, however large its result is?
func BenchmarkSQLiteHead(b *testing.B) {
	s := openStore(b, Options{Dir: b.TempDir()})
	for _, kib := range []int{1, 64, 512} {
		id := fmt.Sprint("result", kib)
		statetest.Put(b, s, statetest.Ended(statetest.Working(id), mcp.TaskCompleted,
			strings.Repeat("x", kib<<10)))
		for name, read := range map[string]func(context.Context, string) (tasks.Task,
			error){"head": s.Open("local").Head, "get": s.Open("local").Get} {
			b.Run(fmt.Sprintf("%s/%dKiB", name, kib), func(b *testing.B) {
				for b.Loop() {
					if _, err := read(b.Context(), id); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
