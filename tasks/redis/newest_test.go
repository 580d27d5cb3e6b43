package redis

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/statetest"
)

// putMany stores so many tasks that have ended.
func putMany(t testing.TB, s *State, many int) {
	t.Helper()
	const atOnce = 20
	var all sync.WaitGroup
	for first := range atOnce {
		all.Go(func() {
			for i := first; i < many; i += atOnce {
				task := statetest.Working(fmt.Sprint("task", i))
				if err := statetest.TryPut(s, statetest.Ended(task, mcp.TaskCompleted, "done")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// served returns how many commands a server has had, and how many microseconds of its processor they took.
func served(t testing.TB, s *State) (commands, micros float64) {
	t.Helper()
	for line := range strings.Lines(do(t, s, "INFO", "commandstats")) {
		for field := range strings.SplitSeq(strings.TrimSpace(line), ",") {
			name, text, _ := strings.Cut(field, "=")
			n, _ := strconv.ParseFloat(text, 64)
			switch {
			case strings.HasSuffix(name, ":calls"):
				commands += n
			case name == "usec":
				micros += n
			}
		}
	}
	return commands, micros
}

// The newest tasks are read without those before them.
func TestNewestFirst(t *testing.T) {
	t.Parallel()
	state := newState(t, startServer(t))
	putMany(t, state, 300)
	before := ""
	for range 2 {
		begun, _ := served(t, state)
		page, rest, err := state.Open("local").List(t.Context(), tasks.NewestFirst, before, 5)
		if err != nil || len(page) != 5 {
			t.Fatalf("%d tasks, %v", len(page), err)
		}
		if now, _ := served(t, state); now-begun > 100 { // some are those of leases and sweeps
			t.Errorf("a page of 5 of 300 tasks took %v commands", now-begun)
		}
		before = rest
	}
}

// BenchmarkNewestFirst reads pages of 50 of an owner's newest tasks, of which there are ever more.
func BenchmarkNewestFirst(b *testing.B) {
	for _, many := range []int{1000, 4000, 16_000} {
		b.Run(fmt.Sprint(many), func(b *testing.B) {
			state := newState(b, startServer(b))
			putMany(b, state, many)
			commands, micros := served(b, state)
			pages := 0
			for b.Loop() {
				before := ""
				for range 2 {
					page, rest, err := state.Open("local").List(b.Context(), tasks.NewestFirst, before, 50)
					if err != nil || len(page) != 50 {
						b.Fatalf("%d tasks, %v", len(page), err)
					}
					before = rest
					pages++
				}
			}
			now, took := served(b, state)
			b.ReportMetric((now-commands)/float64(pages), "commands/page")
			b.ReportMetric((took-micros)/float64(pages), "server-µs/page")
		})
	}
}
