package e2e

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"runnel/rpc/mcp"
)

const readyTools = `
tools:
  server:
    shell: 'echo starting; sleep 0.2; echo ERROR 1; echo "listening on http://localhost:1/"; sleep 1; echo ERROR 2; echo ERROR 3; echo ERROR 4; exec sleep 600'
    ready: 'listening on (\S+)'
    watch: [{match: ERROR, as: error, limit: 2}]
  prompt: {shell: 'printf "name> "; exec sleep 600', ready: '> $'}
  short: {command: [echo, hi], ready: listening}
  broken: {shell: 'echo hi; exit 3', ready: listening}
`

// texts returns the texts of a call's answer, one after the other.
func (w *witness) texts(tool string, arguments map[string]any) (said string, r mcp.CallToolResult) {
	w.t.Helper()
	w.must(&r, "tools/call", map[string]any{"name": tool, "arguments": arguments})
	for _, item := range r.Content {
		text, _ := mcp.TextOf(item)
		said += text
	}
	return said, r
}

// taskID returns the id of a task in a text, "" if there is none.
func taskID(said string) string {
	return regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`).FindString(said)
}

// A call of a tool with "ready" is answered when a line matches, with the line and the output so far, and the
// command goes on as a task. The answers about it begin with what it has found since.
func TestReady(t *testing.T) {
	t.Parallel()
	state := stateDir(t)
	w := startWitness(&witness{t: t, patience: watchdog, plain: true},
		programCommand(t, append(writeConfig(t, readyTools), "--state", state)...))
	for range 2 {
		said, r := w.texts("server", nil)
		id := taskID(said)
		if r.IsError || !strings.HasPrefix(said, "server: ready after ") ||
			!strings.Contains(said, " s: listening on http://localhost:1/\nIt goes on, as task "+id+
				". Call get_task_result ") ||
			!strings.Contains(said, "\nmatched error: ERROR 1\nIts output so far:\nstarting\nERROR 1\nlistening on http://localhost:1/\n") {
			t.Errorf("its call is answered with %q", said)
		}
		if said, _ := w.texts("list_tasks", nil); !strings.Contains(said,
			id+" server working, started ") || !strings.Contains(said, " ago: ready after ") {
			t.Errorf("the list says %q", said)
		}
		for _, command := range [][]string{{"tasks", "list"}, {"tasks", "get", id}} {
			out, err := programCommand(t, append(command, "--state", state)...).CombinedOutput()
			if err != nil || !regexp.MustCompile(`(?m)(^`+id[:8]+`  working +server .*|^message: +)ready after \S+ s: listening on `).Match(out) {
				t.Errorf("%v, %v: %s", command, err, out)
			}
		}
		said = ""
		for deadline := time.Now().Add(watchdog); !strings.Contains(said, "ERROR 4\n") &&
			time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
			said, _ = w.texts("get_task_result", map[string]any{"task_id": id, "wait_ms": 0, "after": 0})
		}
		if said, _ := w.texts("get_task_result",
			map[string]any{"task_id": id, "wait_ms": 0}); strings.Contains(said, "matched") {
			t.Errorf("the same is told twice: %q", said)
		}
		if said, _ := w.texts("cancel_task", map[string]any{"task_id": id}); !strings.HasSuffix(said,
			": cancelled") {
			t.Errorf("it is cancelled with %q", said)
		}
		said, r = w.texts("prompt", nil)
		if r.IsError || !strings.HasPrefix(said, "prompt: ready after ") ||
			!strings.Contains(said, " s: name>\n") || !strings.HasSuffix(said, "\nname> ") {
			t.Errorf("a prompt: %q", said)
		}
		if said, r := w.texts("short", nil); r.IsError ||
			!strings.HasPrefix(said, "hi\nended before it was ready: exit code 0 after ") {
			t.Errorf("one that ends before says %q", said)
		}
		if said, r := w.texts("broken", nil); !r.IsError ||
			!strings.HasPrefix(said, "hi\nended before it was ready: exit code 3 after ") {
			t.Errorf("one that fails before says %q", said)
		}
	}
	w.end()
}

// An answer begins with the matches since the last one: as many lines as the limit, and a number.
func TestMatchesSinceTheLastAnswer(t *testing.T) {
	t.Parallel()
	w := startWitness(&witness{t: t, patience: watchdog, plain: true},
		programCommand(t, append(writeConfig(t, `
tools:
  build:
    shell: 'i=0; while [ $i -lt 217 ]; do i=$((i+1)); echo "ERROR $i"; done; echo WARN; exit 1'
    watch: [{match: ERROR, as: error}, {match: WARN}]
`), "--state", stateDir(t))...))
	for range 2 {
		said, _ := w.texts("start_task", map[string]any{"tool": "build"})
		id := taskID(said)
		said, _ = w.texts("get_task_result", map[string]any{"task_id": id})
		want := "matched error: ERROR 1\nmatched error: ERROR 2\nmatched error: ERROR 3\nmatched error: ERROR 4\nmatched error: ERROR 5\n" +
			"matched error: and 212 more, the last one: ERROR 217\nmatched WARN: WARN\nERROR 1\nERROR 2\n"
		if !strings.HasPrefix(said, want) {
			t.Errorf("the answer begins with %.500q", said)
		}
		if said, _ = w.texts("get_task_result", map[string]any{"task_id": id}); strings.Contains(said,
			"matched") {
			t.Errorf("the next one says it again: %q", said)
		}
	}
	w.end()
}

// A session that cannot go on with tasks gets the answer of a tool that is ready, too, and what becomes of it.
func TestReadyWithoutTasks(t *testing.T) {
	t.Parallel()
	w := startWitness(&witness{t: t, patience: watchdog, plain: true},
		programCommand(t, append(writeConfig(t, readyTools), "--state", stateDir(t), "--fallback-tools",
			"never")...))
	for range 2 {
		if said, r := w.texts("server", nil); r.IsError ||
			!strings.Contains(said, " s: listening on http://localhost:1/\nIt goes on, as task ") ||
			!strings.Contains(said, ". It ends with this session.\n") {
			t.Errorf("its call is answered with %q", said)
		}
	}
	w.end()
}

// Where there is no room for another task, a server that is ready cannot go on: it is stopped, and the answer
// says what to do.
func TestReadyWithoutRoom(t *testing.T) {
	t.Parallel()
	w := startWitness(&witness{t: t, patience: watchdog, plain: true},
		programCommand(t, append(writeConfig(t, `
tasks: {maxLive: 1}
tools:
  server: {shell: 'echo "listening in $$"; exec sleep 600', ready: 'listening in \d+'}
`), "--state", stateDir(t))...))
	for range 2 {
		said, r := w.texts("server", nil)
		id := taskID(said)
		if r.IsError || id == "" {
			t.Fatalf("the first call is answered with %q", said)
		}
		for range 2 {
			said, r = w.texts("server", nil)
			pid := regexp.MustCompile(`^server: ready after \S+ s: listening in (\d+)\nIt has been stopped, since it cannot go on as a task: .*tasks\.maxLive`).
				FindStringSubmatch(said)
			if !r.IsError || pid == nil {
				t.Fatalf("one too many is answered with %q", said)
			}
			n, _ := strconv.Atoi(pid[1])
			gone(t, n)
		}
		if said, _ := w.texts("cancel_task", map[string]any{"task_id": id}); !strings.HasSuffix(said,
			": cancelled") {
			t.Errorf("the first one is cancelled with %q", said)
		}
	}
	w.end()
}

// A client that augments its call with a task sees in its status when the tool is ready.
func TestReadyInTheStatus(t *testing.T) {
	t.Parallel()
	for name, more := range map[string]string{"here": "", "detached": "    detach: always\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			yaml := strings.Replace(readyTools, "    ready: 'listening", more+"    ready: 'listening", 1)
			w := newWitness(t, programCommand(t, append(writeConfig(t, yaml), "--state", stateDir(t))...))
			for range 2 {
				var created mcp.CreateTaskResult
				w.must(&created, "tools/call",
					map[string]any{"name": "server", "arguments": map[string]any{}, "task": map[string]any{}})
				id := created.Task.TaskID
				var got mcp.Task
				for deadline := time.Now().Add(watchdog); !strings.Contains(got.StatusMessage,
					"matched error: ERROR 4") && time.Now().
					Before(deadline); time.Sleep(20 * time.Millisecond) {
					w.must(&got, "tasks/get", map[string]any{"taskId": id})
				}
				if got.Status != mcp.TaskWorking || !strings.HasPrefix(got.StatusMessage, "ready after ") ||
					!strings.Contains(got.StatusMessage,
						" s: listening on http://localhost:1/; matched error: ERROR 4 (and 3 more)") {
					t.Errorf("its status is %s, %q", got.Status, got.StatusMessage)
				}
				w.must(&got, "tasks/cancel", map[string]any{"taskId": id})
			}
			w.end()
		})
	}
}

// With until, an answer comes at the first new line that matches, or at the end.
func TestUntil(t *testing.T) {
	t.Parallel()
	w := startWitness(&witness{t: t, patience: watchdog, plain: true},
		programCommand(t, append(writeConfig(t, `
tools:
  build: {shell: 'echo one; sleep 0.2; echo two; sleep 0.2; printf "three> "; sleep 600'}
  quick: {shell: 'echo one; echo two; exit 1'}
`), "--state", stateDir(t))...))
	for range 2 {
		said, _ := w.texts("start_task", map[string]any{"tool": "build", "until": "^two$"})
		id := taskID(said)
		if !strings.HasPrefix(said, "build is task "+id+".\nmatched until: two\none\ntwo\n") {
			t.Errorf("started until two: %q", said)
		}
		if said, _ = w.texts("get_task_result",
			map[string]any{"task_id": id, "until": "> $"}); !strings.HasPrefix(said,
			"matched until: three>\nthree> \n[working for ") {
			t.Errorf("until a prompt: %q", said)
		}
		if said, _ = w.texts("get_task_result",
			map[string]any{"task_id": id, "until": "two", "wait_ms": 200}); !strings.HasPrefix(said,
			"no line matches until \"two\" yet\n[working for ") {
			t.Errorf("until what has been read: %q", said)
		}
		if said, _ = w.texts("get_task_result",
			map[string]any{"task_id": id, "until": "two", "after": 0, "wait_ms": 0}); !strings.HasPrefix(said,
			"matched until: two\none\ntwo\n") {
			t.Errorf("until what is there from a position on: %q", said)
		}
		w.texts("cancel_task", map[string]any{"task_id": id})
		said, _ = w.texts("start_task", map[string]any{"tool": "quick", "until": "four"})
		if !strings.Contains(said, ".\nended, and no line matched until \"four\"\none\ntwo\n[failed, exit code 1, ") {
			t.Errorf("until what never comes: %q", said)
		}
		if said, _ = w.texts("get_task_result",
			map[string]any{"task_id": taskID(said), "until": "two", "after": 0}); !strings.HasPrefix(said,
			"matched until: two\n") {
			t.Errorf("after the end: %q", said)
		}
		for pattern, problem := range map[string]string{"(": "not a valid regular expression",
			".*": "matches every line"} {
			if said, r := w.texts("start_task",
				map[string]any{"tool": "quick", "until": pattern}); !r.IsError ||
				!strings.Contains(said, problem) {
				t.Errorf("until %s: %q", pattern, said)
			}
		}
	}
	w.end()
}

// A log full of matches costs no memory: the answer tells the first ones and their number. It is a log of 1 GB
// with a million of them where RUNNEL_TEST_MATCHES says so, else of 10 MB.
func TestManyMatches(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("the peak of a process's memory is read from /proc")
	}
	matches := cmp.Or(os.Getenv("RUNNEL_TEST_MATCHES"), "10000")
	w := startWitness(&witness{t: t, patience: 10 * time.Minute, plain: true},
		programCommand(t, append(writeConfig(t, `
tools:
  fill:
    shell: 'yes "ERROR $(printf %0990d 7)" | head -n `+matches+`'
    watch: [{match: "ERROR 0+7", as: error}]
    maxOutput: 4MiB
`), "--state", stateDir(t))...))
	peak := func() (kilobytes int) {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.cmd.Process.Pid))
		if _, after, ok := strings.Cut(string(status), "VmHWM:"); ok && err == nil {
			_, err = fmt.Sscan(after, &kilobytes)
		}
		if err != nil || kilobytes == 0 {
			t.Fatalf("the peak of the memory is not known: %v", err)
		}
		return kilobytes
	}
	for range 2 {
		before, began := peak(), time.Now()
		said, _ := w.texts("start_task", map[string]any{"tool": "fill"})
		id := taskID(said)
		lines := ""
		for deadline := time.Now().Add(10 * time.Minute); !strings.Contains(said, "\n[completed") &&
			time.Now().Before(deadline); {
			said, _ = w.texts("get_task_result", map[string]any{"task_id": id})
			for line := range strings.Lines(said) {
				if strings.HasPrefix(line, "matched error: ") {
					lines += line
				}
			}
		}
		told, _, _ := strings.Cut(lines, "matched error: and ")
		if n := strings.Count(told, "\n"); n != 5 || !strings.Contains(lines, "more, the last one: ERROR 0") {
			t.Errorf("%d lines are told: %.3000q", n, lines)
		}
		list, _ := w.texts("list_tasks", nil)
		if !strings.Contains(list, id+" fill completed") {
			t.Errorf("the list says %q", list)
		}
		t.Logf("%s matches, 1000 bytes each, in %v; the peak of the memory was %d KiB before and is %d KiB",
			matches, time.Since(began).Round(time.Millisecond), before, peak())
		if peak() > 200<<10 {
			t.Errorf("the memory grew to %d KiB", peak())
		}
	}
	w.end()
}
