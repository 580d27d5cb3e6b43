package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"runnel/internal/cli"
	"runnel/rpc/mcp"
)

// stateDir is a directory for tasks. It is removed when no supervisor has files in it any more.
func stateDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() {
		leases, _ := filepath.Glob(filepath.Join(dir, "alive", "*"))
		for _, lease := range leases {
			f, err := os.Open(lease)
			if err != nil {
				continue // let go since
			}
			for deadline := time.Now().Add(watchdog); syscall.Flock(int(f.Fd()),
				syscall.LOCK_EX|syscall.LOCK_NB) != nil; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Error("a supervisor goes on")
					break
				}
			}
			_ = f.Close()
		}
	})
	return dir
}

// detachedTools are what the tests of detached work call. chunks writes what the self-test tool stream
// writes; tree has a grandchild whose process id is the first line of its output.
const detachedTools = `
tools:
  chunks:
    shell: |
      x=$(printf '%086d' 0 | tr 0 x)
      i=0
      while [ $i -lt $count ]; do printf 'chunk %06d %s\n' $i $x; i=$((i+1)); if [ $((i % every)) = 0 ]; then sleep 0.02; fi; done
    input: {count: {type: integer}, every: {type: integer}}
    required: [count, every]
    detach: true
  tree: {shell: 'sleep 600 & echo $!; sleep 600', detach: true}
  brief: {shell: 'sleep 600 & echo $!; sleep 600', detach: true, timeout: 1500ms}
  notes:
    shell: 'cat "$RUNNEL_VARIABLES"; echo "$GREETING"; printf %s "{\"b\":2}" > "$RUNNEL_VARIABLES"; sleep 1'
    env: {GREETING: hello}
    detach: true
`

// detachedWitness is a client of a runnel with these tools.
func detachedWitness(t testing.TB, dir string) *witness {
	t.Helper()
	return newWitness(t, programCommand(t,
		append(writeConfig(t, detachedTools), "--state", dir, "--fallback-tools", "always", "--max-tasks",
			"1000", "--max-result", "512KiB", "--drain", "0")...))
}

// start starts a tool as a task.
func (w *witness) start(tool string, ttl time.Duration, arguments map[string]any) string {
	w.t.Helper()
	var created mcp.CreateTaskResult
	w.must(&created, "tools/call",
		map[string]any{"name": tool, "arguments": arguments,
			"task": map[string]any{"ttl": ttl.Milliseconds()}})
	return created.Task.TaskID
}

// grandchild waits for the first line of a task's output, which is a process id.
func (w *witness) grandchild(id string) int {
	w.t.Helper()
	for deadline := time.Now().Add(watchdog); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if line, _, ok := strings.Cut(w.output(id), "\n"); ok {
			pid, err := strconv.Atoi(line)
			if err != nil {
				w.t.Fatal(err)
			}
			return pid
		}
	}
	w.t.Fatal("no output")
	return 0
}

// supervisor is the process of a task's supervisor, 0 if there is none.
func supervisor(id string) int {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		cmdline, _ := os.ReadFile(file)
		if bytes.Equal(cmdline, []byte("runnel-supervisor\x00"+id+"\x00")) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			return pid
		}
	}
	return 0
}

func supervisorEnds(t *testing.T, id string) {
	t.Helper()
	for deadline := time.Now().Add(watchdog); supervisor(id) != 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the supervisor of %s goes on", id)
		}
	}
}

// A detached task goes on when its runnel is killed: the next one finds it working, with what came since, and
// its output grows on, in order; in the end nothing is missing, and the result is there.
func TestDetachedTaskGoesOn(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	first := detachedWitness(t, dir)
	const count = 1500 // for some 3 s
	id := first.start("chunks", time.Hour, map[string]any{"count": count, "every": 10})
	for len(first.output(id)) == 0 {
		<-time.After(10 * time.Millisecond)
	}
	first.kill()

	second := detachedWitness(t, dir)
	var task struct {
		mcp.Task
		Meta map[string]any `json:"_meta"`
	}
	second.must(&task, "tasks/get", map[string]any{"taskId": id})
	if task.Status != mcp.TaskWorking || task.Meta[mcp.MetaDetached] != true ||
		!strings.HasPrefix(task.StatusMessage, "chunk ") {
		t.Errorf("after the kill: %+v", task)
	}
	uri := "runnel://tasks/" + id + "/log"
	second.must(&struct{}{}, "resources/subscribe", map[string]any{"uri": uri})
	before := len(second.output(id))
	var result mcp.CallToolResult
	second.must(&result, "tasks/result", map[string]any{"taskId": id})
	after := len(second.output(id))
	if before == 0 || after <= before {
		t.Errorf("%d bytes of output, later %d", before, after)
	}
	k := known{id: id, chunks: count, detached: true}
	k.check(second)
	if k.seen.Status != mcp.TaskCompleted || result.IsError {
		t.Errorf("%s: %s", k.seen.Status, k.seen.StatusMessage)
	}
	if second.count(uri) == 0 {
		t.Error("nothing told that the log has grown")
	}
	second.end()
	supervisorEnds(t, id)
	checkIntegrity(t, dir)
}

// A runnel may be the command of another one's call. When that one is killed, its guard knows the call's
// processes by its variables: a supervisor is none of them.
func TestSupervisorIsNoPartOfACall(t *testing.T) {
	t.Parallel()
	config := writeConfig(t, "tools: {supervisor: {shell: 'tr \"\\0\" \"\\n\" < /proc/$PPID/environ', detach: true}}")
	runnel := programCommand(t, append(config, "--state", stateDir(t))...)
	runnel.Env = append(runnel.Env, "RUNNEL_VARIABLES=/outer/variables.json", "OUTER=kept")
	w := newWitness(t, runnel)
	id := w.start("supervisor", time.Hour, nil)
	w.must(&struct{}{}, "tasks/result", map[string]any{"taskId": id})
	if got := w.output(id); !strings.Contains(got, "OUTER=kept\n") ||
		strings.Contains(got, "RUNNEL_VARIABLES") {
		t.Errorf("its environment: %q", got)
	}
	w.end()
}

// A listener at the next runnel (2026-07-28) gets the output of a detached task from its beginning, numbered
// without a gap, as it comes, and then its end.
func TestDetachedTaskIsListenedToLater(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	first := detachedWitness(t, dir)
	const count = 1000
	id := first.start("chunks", time.Hour, map[string]any{"count": count, "every": 10})
	for len(first.output(id)) == 0 {
		<-time.After(10 * time.Millisecond)
	}
	first.kill()
	s := process(t, programCommand(t, "--state", dir))
	meta := statelessMeta("{{stateless tasks partials}}")
	s.sendLine(`{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"_meta":%s,"notifications":{"taskIds":[%q]}}}`, meta, id)
	s.line() // acknowledged
	var text strings.Builder
	partials := 0
	for ; ; partials++ {
		line := s.line()
		p, err := decodePartial(line)
		if err != nil {
			if !bytes.Contains(line, []byte(`"status":"completed"`)) {
				t.Errorf("behind the partials: %s", clipLine(line))
			}
			break
		}
		if p.Params.Seq != partials {
			t.Errorf("seq %d, want %d", p.Params.Seq, partials)
		}
		text.WriteString(p.text())
	}
	if err := checkChunks(text.String(), count, knownBytes); err != nil {
		t.Error(err)
	}
	if partials < 5 {
		t.Errorf("%d partials: they came all at once", partials)
	}
	t.Logf("%d partials", partials)
}

// Neither the end of the input nor SIGTERM ends a detached task; others of the same runnel end.
func TestDetachedTaskOutlivesTheEnd(t *testing.T) {
	for name, end := range map[string]func(w *witness){
		"EOF":     func(w *witness) { w.end() },
		"SIGTERM": func(w *witness) { _ = w.cmd.Process.Signal(syscall.SIGTERM); w.end() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := stateDir(t)
			w := detachedWitness(t, dir)
			id := w.start("tree", time.Hour, nil)
			waited := w.ask("tools/call", map[string]any{"name": "tree"}) // a plain call's goes on, too
			grandchild := w.grandchild(id)
			var page mcp.ListTasksResult
			for len(page.Tasks) < 2 {
				w.must(&page, "tasks/list", map[string]any{})
			}
			end(w)
			select {
			case a := <-waited:
				if a.Error == nil {
					t.Errorf("the plain call: %s", a.Result)
				}
			default:
			}
			w = detachedWitness(t, dir)
			for _, task := range page.Tasks {
				var got mcp.Task
				w.must(&got, "tasks/get", map[string]any{"taskId": task.TaskID})
				if got.Status != mcp.TaskWorking {
					t.Errorf("%s: %s", got.Status, got.StatusMessage)
				}
				w.must(&got, "tasks/cancel", map[string]any{"taskId": task.TaskID})
				if got.Status != mcp.TaskCancelled {
					t.Errorf("cancelled: %s", got.Status)
				}
				supervisorEnds(t, task.TaskID)
			}
			gone(t, grandchild)
			w.end()
		})
	}
}

// Two runnels at once: what one started the other one follows and cancels, with all its children, and the
// first one's client is told.
func TestDetachedTaskOfTwo(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	one, two := detachedWitness(t, dir), detachedWitness(t, dir)
	id := one.start("tree", time.Hour, nil)
	grandchild := two.grandchild(id)
	waiting := []chan answer{one.ask("tasks/result", map[string]any{"taskId": id}),
		two.ask("tasks/result", map[string]any{"taskId": id})}
	var task mcp.Task
	two.must(&task, "tasks/cancel", map[string]any{"taskId": id})
	if task.Status != mcp.TaskCancelled || task.StatusMessage != "cancelled by the client" {
		t.Errorf("cancelled: %+v", task)
	}
	gone(t, grandchild)
	for _, got := range waiting {
		select {
		case a := <-got:
			if a.Error != nil || !bytes.Contains(a.Result, []byte("cancelled")) {
				t.Errorf("result %s, error %+v", a.Result, a.Error)
			}
		case <-time.After(watchdog):
			t.Fatal("no result")
		}
	}
	one.end()
	two.end()
	if told := one.statuses[id]; told.Status != mcp.TaskCancelled {
		t.Errorf("the client that started it was told %q", told.Status)
	}
	if len(two.statuses) > 0 {
		t.Errorf("a client was told of a task that it did not start: %v", two.statuses)
	}
}

// With nobody alive a detached task ends at its timeout, and when its ttl is over.
func TestDetachedTaskEndsAlone(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	w := detachedWitness(t, dir)
	timed, expired := w.start("brief", time.Hour, nil), w.start("tree", 2*time.Second, nil)
	grandchildren := []int{w.grandchild(timed), w.grandchild(expired)}
	w.kill()
	supervisorEnds(t, timed)
	supervisorEnds(t, expired)
	for _, pid := range grandchildren {
		gone(t, pid)
	}
	w = detachedWitness(t, dir)
	var task mcp.Task
	w.must(&task, "tasks/get", map[string]any{"taskId": timed})
	if task.Status != mcp.TaskFailed || !strings.HasPrefix(task.StatusMessage, "timed out after 1.5s") {
		t.Errorf("at the timeout: %+v", task)
	}
	if a := w.call("tasks/get", map[string]any{"taskId": expired}); a.Error == nil {
		t.Errorf("an expired task: %s", a.Result)
	}
	w.end()
}

// A command under a supervisor has its variables and its environment, and what it writes stands beside what
// clients set.
func TestDetachedTaskHasVariables(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	one, two := detachedWitness(t, dir), detachedWitness(t, dir)
	var created mcp.CreateTaskResult
	one.must(&created, "tools/call",
		map[string]any{"name": "notes", "task": map[string]any{},
			"_meta": map[string]any{mcp.MetaVariables: map[string]any{"a": 1}}})
	id := created.Task.TaskID
	for n, w := range []*witness{one, two} {
		var set struct{ Variables map[string]int }
		w.must(&set, "runnel/tasks/variables",
			map[string]any{"taskId": id, "set": map[string]any{"set" + strconv.Itoa(n): n}})
	}
	var result struct {
		Content []mcp.ContentBlock
		Meta    struct {
			Variables map[string]int `json:"runnel/variables"`
		} `json:"_meta"`
	}
	two.must(&result, "tasks/result", map[string]any{"taskId": id})
	if got := fmt.Sprint(result.Meta.Variables); got != "map[a:1 b:2 set0:0 set1:1]" {
		t.Errorf("variables %s", got)
	}
	if text, _ := mcp.TextOf(result.Content[0]); text != "{\"a\":1}hello\n" {
		t.Errorf("output %q", text)
	}
	one.end()
	two.end()
}

// kill -9 of runnel at any moment: no detached task whose id a client knows is lost, and each completes with
// all its output.
func TestDetachedSurvivesAnyMoment(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	var all []*known
	rounds := max(crashRounds(t)/4, 1)
	for range rounds {
		w := detachedWitness(t, dir)
		var handles []handle
		for range 1 + rng.IntN(3) {
			chunks := rng.IntN(300)
			handles = append(handles, handle{chunks,
				w.ask("tools/call", map[string]any{"name": "chunks", "task": map[string]any{"ttl": 3600_000},
					"arguments": map[string]any{"count": chunks, "every": 1 + rng.IntN(30)}})})
		}
		<-time.After(time.Duration(rng.IntN(400)) * time.Millisecond)
		w.kill()
		for _, k := range knownOf(t, handles) {
			k.detached = true
			all = append(all, k)
		}
	}
	w := detachedWitness(t, dir)
	for _, k := range all {
		w.must(&struct{}{}, "tasks/result", map[string]any{"taskId": k.id})
		k.check(w)
		if k.seen.Status != mcp.TaskCompleted {
			t.Errorf("%s: %s %q", k.id, k.seen.Status, k.seen.StatusMessage)
		}
	}
	var page mcp.ListTasksResult
	w.must(&page, "tasks/list", map[string]any{})
	for _, task := range page.Tasks { // those nobody knows, too
		supervisorEnds(t, task.TaskID)
	}
	w.end()
	checkIntegrity(t, dir)
	t.Logf("%d kills, %d detached tasks known, all complete", rounds, len(all))
}

// kill -9 of supervisors at any moment: their tasks have failed, exactly once, in every view; what they had
// stored is a prefix of what the tool wrote, and no child lives on.
func TestSupervisorKilledAtAnyMoment(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 2))
	starter, other := detachedWitness(t, dir), detachedWitness(t, dir)
	completed, cut := 0, 0
	rounds := max(crashRounds(t)/4, 1)
	for range rounds {
		count := rng.IntN(200)
		k := &known{id: starter.start("chunks", time.Hour,
			map[string]any{"count": count, "every": 1 + rng.IntN(10)}), chunks: count, detached: true}
		tree := starter.start("tree", time.Hour, nil)
		grandchild := other.grandchild(tree)
		<-time.After(time.Duration(rng.IntN(300)) * time.Millisecond)
		for _, id := range []string{k.id, tree} {
			if pid := supervisor(id); pid != 0 {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		gone(t, grandchild)
		for _, id := range []string{k.id, tree} { // a follower learns of the end a little later than a reader
			starter.must(&struct{}{}, "tasks/result", map[string]any{"taskId": id})
		}
		k.check(starter)
		k.check(other)
		if k.seen.Status == mcp.TaskCompleted {
			completed++
		} else {
			cut++
		}
		var task mcp.Task
		starter.must(&task, "tasks/get", map[string]any{"taskId": tree})
		if other.must(&task, "tasks/get", map[string]any{"taskId": tree}); task.Status != mcp.TaskFailed ||
			!strings.HasPrefix(task.StatusMessage, "the supervisor that ran this detached task is gone") {
			t.Errorf("%s %q", task.Status, task.StatusMessage)
		}
	}
	starter.end()
	other.end()
	checkIntegrity(t, dir)
	t.Logf("%d kills, %d tasks completed before, %d cut off", 2*rounds, completed, cut)
}

// A supervisor that cannot start is a failed task that says why.
func TestSupervisorThatCannotStart(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	if err := os.Mkdir(filepath.Join(dir, "supervisor.log"), 0o700); err != nil {
		t.Fatal(err)
	}
	w := detachedWitness(t, dir)
	var result mcp.CallToolResult
	w.must(&result, "tools/call", map[string]any{"name": "tree"})
	if text, _ := mcp.TextOf(result.Content[0]); !result.IsError ||
		!strings.Contains(text, "tree cannot be detached") || !strings.Contains(text, "supervisor.log") {
		t.Errorf("isError %v: %s", result.IsError, text)
	}
	w.end()
}

// Nothing outlives a runnel whose tasks live in memory: that is said before anything is served.
func TestDetachNeedsAState(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		says string
	}{
		{append(writeConfig(t, detachedTools), "--state", "memory"),
			"tools.brief.detach: always needs tasks on disk, and they live in memory (allowed: never, or a directory in state.dir (--state))"},
		{append(writeConfig(t, detachedTools), "--state", "nats://user:secret@host"),
			"tools.brief.detach: always needs tasks on disk, and they live in nats://... (allowed: never, or a directory in state.dir (--state))"},
		{[]string{"call", "--detach", "--tool", "nap=sleep 600", "nap", "--state", "memory"},
			"name a directory with --state"},
		{[]string{"call", "--detach", "--selftest", "echo", "text=a", "--state", stateDir(t)},
			"echo is not a command"},
		{[]string{"call", "--detach", "nap", "--", "server"}, "--detach is for runnel's own tools"},
		{[]string{"call", "--detach", "--no-task", "nap"}, "--detach does not go with --no-task"},
	} {
		cmd := programCommand(t, c.args...)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		_ = cmd.Run()
		if code := cmd.ProcessState.ExitCode(); code != exitUsage || stdout.Len() > 0 ||
			!strings.Contains(stderr.String(), c.says) {
			t.Errorf("%q: exit code %d, stdout %q, stderr %q", c.args, code, &stdout, &stderr)
		}
	}
}

// runnel call --detach prints the id of a task that goes on, whatever the config says of the tool, and
// leaves; any runnel on the state has it.
func TestCallDetach(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	config := writeConfig(t, `
tools:
  slow: {shell: 'sleep 1; echo done; exit 4'}
  sure: {shell: 'echo sure', confirm: "Really?"}
  gone: {command: [no-such-program]}
`)
	call := func(args ...string) (id string, code int, stderr string) {
		t.Helper()
		cmd := programCommand(t, append(append([]string{"call", "--detach", "--state", dir}, config...),
			args...)...)
		var out, err bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &err
		_ = cmd.Run()
		return strings.TrimSuffix(out.String(), "\n"), cmd.ProcessState.ExitCode(), err.String()
	}
	for range 2 { // exits as the same call without --detach does
		if id, code, stderr := call("gone"); code != 127 || id != "" ||
			!strings.Contains(stderr, "cannot start no-such-program") {
			t.Errorf("%q, exit code %d, stderr %q", id, code, stderr)
		}
	}
	began := time.Now()
	slow, code, stderr := call("slow")
	if code != 0 || len(slow) != 36 || stderr != "" {
		t.Fatalf("%q, exit code %d, stderr %q", slow, code, stderr)
	}
	t.Logf("gone after %v", time.Since(began))
	sure, code, stderr := call("--yes", "sure")
	if code != 0 || len(sure) != 36 {
		t.Fatalf("confirmed: %q, exit code %d, stderr %q", sure, code, stderr)
	}
	if id, code, stderr := call("sure"); code != 1 || id != "" ||
		!strings.Contains(stderr, "not run: sure must be confirmed") {
		t.Errorf("not confirmed: %q, exit code %d, stderr %q", id, code, stderr)
	}
	w := detachedWitness(t, dir)
	for id, want := range map[string]string{slow: "^done\nexit code 4 after [0-9.]+ s$", sure: "^sure\n$"} {
		var result mcp.CallToolResult
		w.must(&result, "tasks/result", map[string]any{"taskId": id})
		if text, _ := mcp.TextOf(result.Content[0]); !regexp.MustCompile(want).MatchString(text) {
			t.Errorf("%s: %q", id, text)
		}
		supervisorEnds(t, id)
	}
	w.end()
}

// The system takes names of any bytes, and a supervisor runs just what its runnel was told: nothing of it is
// made UTF-8 on the way.
func TestDetachedWithoutUTF8(t *testing.T) {
	t.Parallel()
	const latin = "caf\xe9"
	dir := filepath.Join(stateDir(t), latin)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Skip("names are UTF-8 here: ", err)
	}
	about := []string{"--state", dir, "--owner", latin}
	cmd := programCommand(t, append([]string{"call", "--detach", "tell", "--tool",
		`tell=sh -c 'printf %s "$1" | od -An -tx1; pwd | od -An -c' sh ` + latin}, about...)...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	id, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, &stderr)
	}
	cmd = programCommand(t, append([]string{"tasks", "result", strings.TrimSpace(string(id))}, about...)...)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), " 63 61 66 e9\n") ||
		!strings.Contains(string(out), "351") {
		t.Errorf("%v: %s", err, out)
	}
	supervisorEnds(t, strings.TrimSpace(string(id)))
}

// Ctrl-C while a call is being detached leaves no task behind whose id nobody was told.
func TestCallDetachIsInterrupted(t *testing.T) {
	t.Parallel()
	dir := stateDir(t)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	messages := writerFunc(func(line []byte) (int, error) {
		if bytes.Contains(line, []byte(`"task":{"taskId"`)) { // the handle, before the call has seen it
			interrupt()
		}
		return len(line), nil
	})
	args := append(writeConfig(t, detachedTools), "call", "--detach", "--output", "ndjson", "--state",
		dir, "tree")
	if code := cli.Run(ctx, args, environ(t), strings.NewReader(""), messages,
		t.Output()); code != exitInterrupted {
		t.Errorf("exit code %d", code)
	}
	for deadline := time.Now().Add(watchdog); ; time.Sleep(10 * time.Millisecond) {
		list := people(t, "tasks", "list", "--state", dir).stdout
		if strings.Contains(list, " cancelled ") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the task goes on:\n" + list)
		}
	}
}

type writerFunc func(p []byte) (int, error)

func (write writerFunc) Write(p []byte) (int, error) { return write(p) }

// A call of a client that resumes its tasks outlives the client from when it is a task; until then, and for
// other clients, its command ends with runnel. The client's cancel ends it in any case.
func TestDetachedByItself(t *testing.T) {
	const command = `input: {file: {type: string}},
  shell: 'echo $$ >"$file.new"; mv "$file.new" "$file"; until [ -e "$file.go" ]; do sleep 0.05; done; seq 1 25'`
	const soon, late = "100ms", "10m" // when the call becomes a task
	eof, kill := (*witness).end, (*witness).kill
	for name, c := range map[string]struct {
		client, key, immediateWait string
		end                        func(w *witness)
		outlives                   bool
	}{
		"killed":           {"claude-code", "", soon, kill, true},
		"EOF":              {"claude-code", "", soon, eof, true},
		"killed before":    {"claude-code", "", late, kill, false},
		"EOF before":       {"claude-code", "", late, eof, false},
		"never":            {"claude-code", ", detach: never", soon, kill, false},
		"false":            {"claude-code", ", detach: false", soon, kill, false},
		"other client":     {"test", "", soon, kill, false},
		"always":           {"test", ", detach: always", soon, kill, true},
		"cancel":           {"claude-code", "", soon, nil, false},
		"cancel of a call": {"claude-code", "", late, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := stateDir(t)
			flags := append(writeConfig(t, "tools: {wait: {"+command+c.key+"}}"),
				"--state", dir, "--immediate-wait", c.immediateWait, "--drain", "0")
			meta := takesTasks(c.client)
			for range 2 {
				w := newWitness(t, programCommand(t, flags...))
				file := filepath.Join(t.TempDir(), "pid")
				request, answered := w.send("tools/call",
					map[string]any{"name": "wait", "arguments": map[string]any{"file": file}, "_meta": meta})
				var created struct{ TaskID string }
				if c.immediateWait == soon {
					a := <-answered
					if err := json.Unmarshal(a.Result, &created); err != nil || created.TaskID == "" {
						t.Fatalf("no task: %s %+v", a.Result, a.Error)
					}
				}
				pid := 0
				for deadline := time.Now().Add(watchdog); pid == 0 && time.Now().Before(deadline); {
					<-time.After(10 * time.Millisecond)
					b, _ := os.ReadFile(file)
					pid, _ = strconv.Atoi(strings.TrimSpace(string(b)))
				}
				switch {
				case pid == 0:
					t.Fatal("the command has not started")
				case c.end != nil:
					c.end(w)
				case c.immediateWait == soon:
					w.must(&struct{}{}, "tasks/cancel",
						map[string]any{"taskId": created.TaskID, "_meta": meta})
				default:
					w.notify("notifications/cancelled", map[string]any{"requestId": request, "_meta": meta})
				}
				if !c.outlives {
					gone(t, pid)
					if c.end == nil {
						w.end()
					}
					continue
				}
				w = newWitness(t, programCommand(t, flags...))
				var task struct {
					Status mcp.TaskStatus
					Result struct{ Content []struct{ Text string } }
				}
				get := map[string]any{"taskId": created.TaskID, "_meta": meta}
				if w.must(&task, "tasks/get", get); task.Status != mcp.TaskWorking {
					t.Errorf("after the end of its runnel: %s", task.Status)
				}
				if err := os.WriteFile(file+".go", nil, 0o600); err != nil {
					t.Fatal(err)
				}
				for ; task.Status == mcp.TaskWorking; <-time.After(10 * time.Millisecond) {
					w.must(&task, "tasks/get", get)
				}
				if len(task.Result.Content) != 1 || strings.Count(task.Result.Content[0].Text, "\n") != 25 {
					t.Errorf("it has ended as %+v", task)
				}
				w.end()
			}
		})
	}
}

// takesTasks is the _meta of a client that takes tasks.
func takesTasks(client string) map[string]any {
	extensions := map[string]any{"io.modelcontextprotocol/tasks": map[string]any{}}
	return map[string]any{
		"io.modelcontextprotocol/protocolVersion":    "2026-07-28",
		"io.modelcontextprotocol/clientInfo":         map[string]any{"name": client, "version": "2.1.332"},
		"io.modelcontextprotocol/clientCapabilities": map[string]any{"extensions": extensions},
	}
}

// A call that cannot be detached by itself, since there are too many tasks, runs as any other.
func TestNotDetachedRunsHere(t *testing.T) {
	t.Parallel()
	config := writeConfig(t, "tools: {wait: {command: [sleep, '600']}, say: {command: [echo, hello]}}")
	flags := append(config, "--state", stateDir(t), "--max-tasks", "1", "--immediate-wait", "10m")
	w := newWitness(t, programCommand(t, flags...))
	call := func(tool string) chan answer {
		meta := takesTasks("claude-code")
		return w.ask("tools/call", map[string]any{"name": tool, "arguments": map[string]any{}, "_meta": meta})
	}
	call("wait")
	for page := (mcp.ListTasksResult{}); len(page.Tasks) == 0; {
		w.must(&page, "tasks/list", map[string]any{})
	}
	for range 2 {
		if a := <-call("say"); !bytes.Contains(a.Result, []byte(`"hello\n"`)) {
			t.Errorf("%s %+v", a.Result, a.Error)
		}
	}
	w.end()
}
