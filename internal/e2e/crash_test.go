package e2e

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"runnel/rpc/mcp"
)

// crashRounds is how often runnel is killed; make crash does it 200 times.
func crashRounds(t *testing.T) int {
	rounds := 20
	if text := os.Getenv("RUNNEL_TEST_CRASH_ROUNDS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		rounds = n
	}
	return rounds
}

// known is a task whose id a client has read.
type known struct {
	id     string
	chunks int
	seen   *mcp.Task // its end, once a client has seen that

	detached bool // the output is the result's text
}

const knownBytes = 100 // bytes of a chunk

// handle is a call whose task may have been answered before the process was killed.
type handle struct {
	chunks int
	answer chan answer
}

// knownOf are the tasks whose handles came.
func knownOf(t *testing.T, handles []handle) (list []*known) {
	t.Helper()
	for _, h := range handles {
		select {
		case a := <-h.answer:
			var created mcp.CreateTaskResult
			if err := json.Unmarshal(a.Result, &created); err != nil || created.Task.TaskID == "" {
				t.Fatalf("%v: %s %v", err, a.Result, a.Error)
			}
			list = append(list, &known{id: created.Task.TaskID, chunks: h.chunks})
		default: // the client knows of nothing
		}
	}
	return list
}

// check asks a new process for a task that an older one ran.
func (k *known) check(w *witness) {
	w.t.Helper()
	var task mcp.Task
	// "A dead process's running tasks have their end within 3 s of the next start": a child that was being
	// started when the process was killed holds its lease until it has begun.
	for deadline := time.Now().Add(watchdog); ; time.Sleep(10 * time.Millisecond) {
		if w.must(&task, "tasks/get", map[string]any{"taskId": k.id}); task.Status.Terminal() ||
			time.Now().After(deadline) {
			break
		}
	}
	if !task.Status.Terminal() {
		w.t.Errorf("%s: %s, though nobody runs it", k.id, task.Status)
	}
	if k.seen != nil && (task.Status != k.seen.Status || task.StatusMessage != k.seen.StatusMessage ||
		task.LastUpdatedAt != k.seen.LastUpdatedAt) {
		w.t.Errorf("%s ended %s %q at %s; now it has ended %s %q at %s", k.id, k.seen.Status,
			k.seen.StatusMessage, k.seen.LastUpdatedAt,
			task.Status, task.StatusMessage, task.LastUpdatedAt)
	}
	k.seen = &task
	var result mcp.CallToolResult
	w.must(&result, "tasks/result", map[string]any{"taskId": k.id})
	output := w.output(k.id)
	written := len(output) / knownBytes
	switch err := checkChunks(output[:written*knownBytes], written, knownBytes); {
	case err != nil:
		w.t.Errorf("%s: the output is no prefix of what the tool wrote: %v", k.id, err)
	case len(output)%knownBytes != 0 || written > k.chunks:
		w.t.Errorf("%s: %d bytes of output, of %d chunks of %d", k.id, len(output), k.chunks, knownBytes)
	case task.Status == mcp.TaskCompleted && written != k.chunks:
		w.t.Errorf("%s has completed with %d chunks of %d", k.id, written, k.chunks)
	}
	text, _ := mcp.TextOf(result.Content[0])
	want := fmt.Sprintf("streamed %d chunks", k.chunks)
	if k.detached {
		if want = output; want == "" {
			want = "no output, exit code 0"
		}
	}
	if task.Status == mcp.TaskCompleted && text != want {
		w.t.Errorf("%s: result %q, want %q", k.id, text, want)
	}
	if task.Status != mcp.TaskCompleted &&
		(task.Status != mcp.TaskFailed || !strings.Contains(task.StatusMessage, "is gone") ||
			!result.IsError) {
		w.t.Errorf("%s: %s %q, isError %v", k.id, task.Status, task.StatusMessage, result.IsError)
	}
}

// Everything that a client knows survives kill -9 of runnel at any moment: every end that it saw is there
// with its whole result, every task has one end, no id is unknown, the output is a prefix of what the tool
// wrote, no child lives on.
func TestKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	start := func() *witness {
		return newWitness(t, programCommand(t, "--selftest", "--state", dir, "--fallback-tools", "always",
			"--tool", "nap=sleep 600"))
	}
	var all, recent []*known
	rounds := crashRounds(t)
	completed := 0
	cut := 0
	for range rounds {
		w := start()
		for _, k := range recent {
			k.check(w)
		}
		w.ask("tools/call", map[string]any{"name": "nap", "task": map[string]any{}})
		var handles []handle
		for range 1 + rng.IntN(12) {
			chunks := rng.IntN(1 << rng.IntN(12))
			interval := 0
			if chunks < 100 {
				interval = rng.IntN(3)
			}
			handles = append(handles, handle{chunks,
				w.ask("tools/call", map[string]any{"name": "stream", "task": map[string]any{"ttl": 3600_000},
					"arguments": map[string]any{"count": chunks, "bytes": knownBytes,
						"intervalMs": interval}})})
		}
		<-time.After(time.Duration(rng.IntN(200)) * time.Millisecond)
		w.kill()
		recent = knownOf(t, handles)
		for _, k := range recent {
			if end, told := w.statuses[k.id]; told {
				k.seen = &end
			}
		}
		all = append(all, recent...)
	}
	w := start()
	for _, k := range all {
		k.check(w)
		if k.seen.Status == mcp.TaskCompleted {
			completed++
		} else {
			cut++
		}
	}
	w.end()
	t.Logf("%d kills, %d tasks completed, %d cut off", rounds, completed, cut)
	checkIntegrity(t, dir)
}

// A task that streamed when runnel was killed gives its output as it was streamed: the merged segments,
// numbered as before (SEP-1905).
func TestKilledWhileStreaming(t *testing.T) {
	t.Parallel()
	for name, modes := range map[string][]string{"streaming": {"streaming"},
		"immediate or streaming": {"immediate", "streaming"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			w := newWitness(t, programCommand(t, "--selftest", "--state", dir))
			a := w.call("tools/call", map[string]any{"name": "stream",
				"arguments": map[string]any{"count": 1000, "bytes": knownBytes, "intervalMs": 20},
				"task":      map[string]any{"responseModes": modes}})
			var first struct {
				Task    mcp.Task
				Partial []struct{ Text string } `json:"partial-content"` // the first segment
			}
			if err := json.Unmarshal(a.Result, &first); err != nil || first.Task.TaskID == "" {
				t.Fatalf("%s %+v", a.Result, a.Error)
			}
			type resumed struct {
				Partial []struct {
					SeqNr int
					Text  string
				} `json:"partial-content"`
			}
			id := first.Task.TaskID
			resume := func(w *witness) (r resumed) {
				t.Helper()
				w.must(&r, "tasks/result", map[string]any{"taskId": id, "lastSeqNr": 1})
				return r
			}
			var before resumed
			for deadline := time.Now().Add(watchdog); len(before.Partial) < 3; time.Sleep(10 * time.Millisecond) {
				if before = resume(w); time.Now().After(deadline) {
					t.Fatalf("%+v", before)
				}
			}
			// The numbers that were given out are stored with the next batch of output: when the log on disk
			// is longer than all of this.
			size := 0
			for _, p := range first.Partial {
				size += len(p.Text)
			}
			for _, p := range before.Partial {
				size += len(p.Text)
			}
			for deadline := time.Now().Add(watchdog); storedBytes(t,
				dir) <= int64(size+2*knownBytes); time.Sleep(10 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("the log is not stored")
				}
			}
			w.kill()
			w = newWitness(t, programCommand(t, "--selftest", "--state", dir))
			after := resume(w)
			if len(after.Partial) < len(before.Partial) {
				t.Fatalf("%d segments, %d were sent", len(after.Partial), len(before.Partial))
			}
			for i, p := range before.Partial {
				if after.Partial[i] != p {
					t.Errorf("segment %d is now %+v", p.SeqNr, after.Partial[i])
				}
			}
			var merged mcp.CallToolResult
			w.must(&merged, "tasks/result", map[string]any{"taskId": id})
			if len(merged.Content) != len(after.Partial)+1 || !merged.IsError {
				t.Fatalf("%d items, isError %v: the result is not merged of %d segments", len(merged.Content),
					merged.IsError, len(after.Partial)+1)
			}
			for i, p := range after.Partial {
				if text, _ := mcp.TextOf(merged.Content[i+1]); text != p.Text {
					t.Errorf("item %d is %q, segment %d was %q", i+1, text, p.SeqNr, p.Text)
				}
			}
			w.end()
		})
	}
}

// storedBytes is how much output is in a state.
func storedBytes(t *testing.T, dir string) (n int64) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "runnel.db")+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRow("SELECT coalesce(sum(length(data)), 0) FROM log").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func checkIntegrity(t testing.TB, dir string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "runnel.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var verdict string
	if err := db.QueryRow("PRAGMA integrity_check").Scan(&verdict); err != nil || verdict != "ok" {
		t.Errorf("integrity_check: %s, %v", verdict, err)
	}
}

// sharedTime is how long processes share a state in a test; make crash gives them a minute.
func sharedTime(t *testing.T) time.Duration {
	d := 4 * time.Second
	if text := os.Getenv("RUNNEL_TEST_SHARED_TIME"); text != "" {
		var err error
		if d, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// Several processes work on one state: no error, no task lost or doubled, each seen by all.
func TestProcessesShareAState(t *testing.T) {
	t.Parallel()
	const processes = 8
	dir := stateDir(t)
	var all sync.WaitGroup
	var mu sync.Mutex
	var ids []string
	started := map[string]bool{}
	var witnesses []*witness
	for range processes {
		witnesses = append(witnesses, newWitness(t, programCommand(t, append(writeConfig(t, detachedTools),
			"--selftest", "--state", dir, "--fallback-tools", "always", "--log-level", "warn", "--log-format",
			"json")...)))
	}
	deadline := time.Now().Add(sharedTime(t))
	for n, w := range witnesses {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(n), 7))
			for time.Now().Before(deadline) {
				tool := "stream"
				chunks := rng.IntN(300)
				argument := "bytes"
				if rng.IntN(10) == 0 {
					// detached
					tool = "chunks"
					chunks = rng.IntN(50)
					argument = "every"
				}
				var created mcp.CreateTaskResult
				w.must(&created, "tools/call", map[string]any{"name": tool, "task": map[string]any{},
					"arguments": map[string]any{"count": chunks, argument: knownBytes}})
				mu.Lock()
				if started[created.Task.TaskID] {
					t.Errorf("two tasks are %s", created.Task.TaskID)
				}
				started[created.Task.TaskID] = true
				ids = append(ids, created.Task.TaskID)
				other := ids[rng.IntN(len(ids))]
				mu.Unlock()
				var result mcp.CallToolResult
				w.must(&result, "tasks/result", map[string]any{"taskId": created.Task.TaskID})
				if text, _ := mcp.TextOf(result.Content[0]); tool == "stream" &&
					text != fmt.Sprintf("streamed %d chunks", chunks) {
					t.Errorf("result %q", text)
				}
				w.must(&result, "tasks/result", map[string]any{"taskId": other}) // whichever process ran it
				if result.IsError {
					t.Errorf("%s: %s", other, result.Content)
				}
				if output := w.output(created.Task.TaskID); len(output) != chunks*knownBytes {
					t.Errorf("%d bytes of output, want %d", len(output), chunks*knownBytes)
				}
			}
		})
	}
	all.Wait()
	listed := map[string]bool{}
	for cursor := ""; ; {
		var page mcp.ListTasksResult
		witnesses[0].must(&page, "tasks/list", map[string]any{"cursor": cursor})
		for _, task := range page.Tasks {
			if listed[task.TaskID] || !started[task.TaskID] || task.Status != mcp.TaskCompleted {
				t.Errorf("listed: %+v", task)
			}
			listed[task.TaskID] = true
		}
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	if len(listed) != len(ids) || len(ids) < processes {
		t.Errorf("%d tasks listed, %d started", len(listed), len(ids))
	}
	for _, w := range witnesses {
		w.end()
		if logs := strings.TrimSpace(w.log.String()); logs != "" {
			t.Errorf("complaints:\n%s", logs)
		}
	}
	checkIntegrity(t, dir)
	t.Logf("%d processes, %d tasks", processes, len(ids))
}

// A full disk (here: files that may not grow) fails tasks, with a reason, and not the process. What a client
// saw completed is there when it has room again.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	flags := []string{"--selftest", "--state", dir, "--fallback-tools", "always"}
	program := builtProgram(t)
	limited := programCommand(t)
	limited.Path, limited.Args = "/bin/sh",
		append([]string{"sh", "-c", `ulimit -f 6000; exec "$0" "$@"`, program}, flags...)
	w := newWitness(t, limited)
	completed := map[string]int{}
	failed := 0
	var told []string // tasks whose end a client saw: they have failed
	for i := 0; failed < 3; i++ {
		if i > 200 {
			t.Fatal("the disk does not fill up")
		}
		a := w.call("tools/call", map[string]any{"name": "stream", "task": map[string]any{},
			"arguments": map[string]any{"count": 5000, "bytes": knownBytes}})
		if a.Error != nil {
			if !strings.Contains(a.Error.Message, "could not be stored") ||
				!strings.Contains(a.Error.Message, "disk") {
				t.Fatalf("refused: %s", a.Error.Message)
			}
			failed++
			continue
		}
		var created mcp.CreateTaskResult
		if err := json.Unmarshal(a.Result, &created); err != nil {
			t.Fatal(err)
		}
		id := created.Task.TaskID
		_ = w.call("tasks/result", map[string]any{"taskId": id})
		var task mcp.Task
		w.must(&task, "tasks/get", map[string]any{"taskId": id})
		switch task.Status {
		case mcp.TaskCompleted:
			completed[id] = 5000
		case mcp.TaskFailed:
			failed++
			told = append(told, id)
			if !strings.Contains(task.StatusMessage, "stored") ||
				!strings.Contains(task.StatusMessage, "disk") {
				t.Errorf("failed: %q", task.StatusMessage)
			}
		default:
			t.Errorf("status %s", task.Status)
		}
	}
	// The session goes on.
	w.must(&struct{}{}, "ping", map[string]any{})
	var echo mcp.CallToolResult
	w.must(&echo, "tools/call", map[string]any{"name": "echo", "arguments": map[string]any{"text": "alive"}})
	if len(completed) == 0 {
		t.Error("no task completed before the disk was full")
	}
	w.end()

	w = newWitness(t, programCommand(t, flags...))
	for id, chunks := range completed {
		k := known{id: id, chunks: chunks}
		k.check(w)
		if k.seen.Status != mcp.TaskCompleted {
			t.Errorf("%s had completed; now: %s", id, k.seen.Status)
		}
	}
	for _, id := range told {
		var task mcp.Task
		var result mcp.CallToolResult
		if w.must(&task, "tasks/get", map[string]any{"taskId": id}); task.Status != mcp.TaskFailed {
			t.Errorf("%s had failed; now: %s", id, task.Status)
		}
		// The end that was told, if it could be stored when runnel ended; else that the runnel is gone.
		switch a := w.call("tasks/result", map[string]any{"taskId": id}); {
		case a.Error != nil && !strings.Contains(a.Error.Message, "could not be stored"):
			t.Errorf("%s had failed; its result: %s", id, a.Error.Message)
		case a.Error == nil && (json.Unmarshal(a.Result, &result) != nil || !result.IsError):
			t.Errorf("%s had failed; its result: %s", id, a.Result)
		}
		output := w.output(id)
		if err := checkChunks(output[:len(output)/knownBytes*knownBytes], len(output)/knownBytes,
			knownBytes); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
	var created mcp.CreateTaskResult
	w.must(&created, "tools/call",
		map[string]any{"name": "echo", "task": map[string]any{},
			"arguments": map[string]any{"text": "room again"}})
	w.end()
	checkIntegrity(t, dir)
	t.Logf("%d tasks completed before the disk was full, %d failed", len(completed), len(told))
}

// A client may start a server only to probe it. Nothing is taken from the state then, nor made.
func TestProbeTakesNothing(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	cmd := programCommand(t, "--selftest", "--state", dir)
	cmd.Stdin = strings.NewReader(initialize + "\n")
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil || !strings.Contains(out.String(), "protocolVersion") {
		t.Errorf("%v: %s", err, &out)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the state: %v", err)
	}
}

// A process that was stopped for a while (a laptop asleep) keeps its tasks: only one that is gone loses them.
func TestStoppedIsNotGone(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	flags := []string{"--selftest", "--state", dir}
	first := newWitness(t, programCommand(t, flags...))
	var created mcp.CreateTaskResult
	first.must(&created, "tools/call",
		map[string]any{"name": "sleep", "task": map[string]any{}, "arguments": map[string]any{"ms": 600_000}})
	if err := first.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	second := newWitness(t, programCommand(t, flags...))
	var task mcp.Task
	second.must(&task, "tasks/get", map[string]any{"taskId": created.Task.TaskID})
	if task.Status != mcp.TaskWorking {
		t.Errorf("%s: %q", task.Status, task.StatusMessage)
	}
	if err := first.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	// Cancelling reaches it in the other process.
	second.must(&task, "tasks/cancel", map[string]any{"taskId": created.Task.TaskID})
	if task.Status != mcp.TaskCancelled {
		t.Errorf("cancelled: %s", task.Status)
	}
	first.end()
	second.end()
}
