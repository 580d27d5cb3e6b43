package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// npmMark stands in the config of a transcript for where npm has installed packages.
const npmMark = "{{npm}}"

// The delay that two hops add to a partial: from the chunk at the last runnel to the partial at the client.
func TestTwoHops(t *testing.T) {
	t.Parallel()
	const (
		chunks = 40
		most   = time.Second // the median's bound, even on a busy machine
	)
	alone := delays(t, chunks, "--selftest")
	t.Logf("alone: median %v, worst of %d %v", alone[chunks/2], chunks, alone[chunks-1])
	for _, way := range []string{"subscription", "sep2679"} {
		last := behindIn(t, builtProgram(t), way, "--selftest")
		behind := delays(t, chunks, behindIn(t, builtProgram(t), way, last...)...)
		t.Logf("behind two others, by %s: median %v, worst of %d %v: two hops add %v", way,
			behind[chunks/2], chunks, behind[chunks-1], behind[chunks/2]-alone[chunks/2])
		if behind[chunks/2] > most {
			t.Errorf("%s: median %v, want at most %v even on a busy machine", way, behind[chunks/2], most)
		}
	}
}

// delays are those of the partials of one call, sorted; the pauses between its chunks are longer than the
// pace.
func delays(t *testing.T, chunks int, flags ...string) (late []time.Duration) {
	t.Helper()
	s := process(t, programCommand(t, flags...))
	s.open()
	s.sendLine(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"stream","arguments":{"count":%d,"intervalMs":70},"task":{}}}`, chunks)
	s.line()
	for len(late) < chunks {
		line := s.line()
		now := time.Now()
		p, err := decodePartial(line)
		if err != nil {
			t.Fatal(err)
		}
		for text := range strings.Lines(p.text()) {
			var n int
			var nanos int64
			if _, err := fmt.Sscanf(text, "chunk %d t=%d", &n, &nanos); err != nil {
				t.Fatalf("%v: %q", err, text)
			}
			late = append(late, now.Sub(time.Unix(0, nanos)))
		}
	}
	slices.Sort(late)
	return late
}

// napping starts a command at the last of three runnels, as a task, and returns the ids of the command's
// process and of the task.
func napping(t *testing.T, way string) (s *session, pid int, task string) {
	t.Helper()
	s = process(t, racedCommand(t,
		chain(t, way, "--pace=0", `--tool=nap=sh -c "echo $$; exec sleep 600"`)...))
	s.open()
	s.sendLine(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"nap","task":{}}}`)
	s.line()
	p, err := decodePartial(s.line())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(p.text(), &pid); err != nil {
		t.Fatal(err)
	}
	return s, pid, p.Params.TaskID
}

// A cancel goes down to the command at the other end.
func TestCancelReachesTheLastHop(t *testing.T) {
	for way := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			s, pid, task := napping(t, way)
			s.sendLine(`{"jsonrpc":"2.0","id":2,"method":"tasks/cancel","params":{"taskId":%q}}`, task)
			gone(t, pid)
		})
	}
}

// A question that the last of three runnels puts in the middle of its work, when the call may be a task at
// each hop, reaches the user, and a client that cannot ask is told so.
func TestQuestionOfTheLastHop(t *testing.T) {
	for way := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			for _, flags := range []string{"", "--no-task", "--protocol=2026-07-28",
				"--protocol=2025-06-18"} {
				args := append([]string{"call", "ask", "message=who?", "delayMs=300"},
					strings.Fields(flags)...)
				server := itself(t, chain(t, way, "--selftest")...)
				if got := runClient(t, "", append(append(args, "--yes"),
					server...)...); got.stdout != "accepted: yes" || got.code != exitFine {
					t.Errorf("%s: exit code %d\n%q\n%s", flags, got.code, got.stdout, got.stderr)
				}
				if got := runClient(t, "", append(args, server...)...); got.code != exitFailure ||
					!strings.Contains(got.stdout+got.stderr, "elicitation") {
					t.Errorf("%s, who cannot ask: exit code %d\n%q\n%s", flags, got.code, got.stdout,
						got.stderr)
				}
			}
		})
	}
}

// However the first of three runnels ends, the others end, and the command of the last.
func TestUpstreamsEndWithTheFirst(t *testing.T) {
	for name, end := range map[string]func(s *session) error{
		"EOF":     func(s *session) error { return s.closeStdin() },
		"SIGTERM": func(s *session) error { return syscall.Kill(s.pid, syscall.SIGTERM) },
		"SIGKILL": func(s *session) error { return syscall.Kill(s.pid, syscall.SIGKILL) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, pid, _ := napping(t, "sep2679")
			others := descendants(t, s.pid)
			if len(others) < 4 { // a shell with sed before each, at least
				t.Fatalf("the program has only %d descendants", len(others))
			}
			if err := end(s); err != nil {
				t.Fatal(err)
			}
			gone(t, pid)
			for deadline := time.Now().Add(watchdog); ; time.Sleep(5 * time.Millisecond) {
				others = slices.DeleteFunc(others, func(pid int) bool {
					stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
					return err != nil || strings.Contains(string(stat), ") Z")
				})
				if len(others) == 0 {
					return
				}
				if time.Now().After(deadline) {
					t.Fatalf("processes %d live on", others)
				}
			}
		})
	}
}

// descendants are the processes that a process has started, and those that they have.
func descendants(t *testing.T, of int) (pids []int) {
	t.Helper()
	parents := map[int][]int{}
	list, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range list {
		stat, _ := os.ReadFile(file)
		end := strings.LastIndexByte(string(stat), ')')
		var pid, parent int
		var state string
		if end < 0 {
			continue
		}
		if _, err := fmt.Sscan(string(stat), &pid); err != nil {
			continue
		}
		if _, err := fmt.Sscan(string(stat[end+1:]), &state, &parent); err == nil {
			parents[parent] = append(parents[parent], pid)
		}
	}
	for next := []int{of}; len(next) > 0; {
		children := parents[next[0]]
		next = append(next[1:], children...)
		pids = append(pids, children...)
	}
	return pids
}

// The part that a result of the last hop leaves out is read where the first one says, in all ways that a
// runnel speaks to another.
func TestCutOfTheLastHop(t *testing.T) {
	t.Parallel()
	config := writeConfig(t, "tools: {count: {command: [seq, '1', '3000'], maxResult: 1KiB, structured: summary}}")
	for _, way := range []string{"subscription", "sep2998", "sep2679", "sep1905"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			w := newWitness(t, racedCommand(t,
				append(chain(t, way, append(slices.Clip(config), "--state", "memory")...), "--state",
					t.TempDir())...))
			a := w.call("tools/call", map[string]any{"name": "count"})
			uris := map[string]bool{}
			for _, uri := range regexp.MustCompile(`runnel://tasks/[^/]+/log`).
				FindAllString(string(a.Result), -1) {
				uris[uri] = true
			}
			if len(uris) != 1 {
				t.Errorf("it names %d logs: %s, %+v", len(uris), a.Result, a.Error)
			}
			for uri := range uris {
				if read := w.call("resources/read",
					map[string]any{"uri": uri}); !strings.Contains(string(read.Result), `\n1500\n`) {
					t.Errorf("%s: %+v", uri, read.Error)
				}
			}
			w.end()
		})
	}
}
