package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"runnel/rpc/mcp"
)

// crew is what tests of workers start: real processes on one NATS server, with one config.
type crew struct {
	t            testing.TB
	program, dir string // commands find dir as $DIR
	env, config  []string
}

func newCrew(t *testing.T, config string) *crew {
	t.Helper()
	dir := t.TempDir()
	return &crew{
		t: t, program: builtProgram(t), dir: dir,
		env: append(environ(t), "RUNNEL_STATE="+startNATS(t), "DIR="+dir), config: writeConfig(t, config),
	}
}

// work starts a worker, whose commands find its name as $WHO, as a script does with &: SIGINT is ignored
// then. A test that has failed shows its log.
func (c *crew) work(name string, args ...string) (worker *exec.Cmd, log *syncBuffer) {
	c.t.Helper()
	script := []string{"-c", `trap '' INT; exec "$@"`, "sh", c.program, "work"}
	worker, log = exec.Command("sh", append(append(script, args...), c.config...)...), &syncBuffer{}
	worker.Env, worker.Stderr = append(c.env, "WHO="+name), log
	if err := worker.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		_ = worker.Process.Kill()
		_ = worker.Wait()
		if c.t.Failed() {
			c.t.Logf("%s:\n%s", name, log)
		}
	})
	return worker, log
}

// runs runs the program to its end.
func (c *crew) runs(args ...string) string {
	cmd := exec.Command(c.program, append(args, c.config...)...)
	cmd.Env = c.env
	out, _ := cmd.CombinedOutput() // what it says is looked at
	return string(out)
}

// offer calls a tool, and returns the id of its task when that waits for a worker.
func (c *crew) offer(args ...string) string {
	c.t.Helper()
	out := c.runs(append([]string{"call", "--detach"}, args...)...)
	id := regexp.MustCompile(`(?m)^[0-9a-f-]{36}$`).FindString(out)
	if id == "" {
		c.t.Fatal(out)
	}
	return id
}

// until waits until the program says something.
func (c *crew) until(what string, args ...string) {
	c.t.Helper()
	looks := regexp.MustCompile(what)
	for deadline := time.Now().Add(watchdog); ; time.Sleep(100 * time.Millisecond) {
		out := c.runs(args...)
		if looks.MatchString(out) {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("no %q:\n%s", what, out)
		}
	}
}

// file waits until a file in the directory looks as said.
func (c *crew) file(name, what string) string {
	c.t.Helper()
	looks := regexp.MustCompile(what)
	for deadline := time.Now().Add(watchdog); ; time.Sleep(20 * time.Millisecond) {
		text, _ := os.ReadFile(filepath.Join(c.dir, name)) // it may not be there yet
		if looks.Match(text) {
			return string(text)
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("no %q in %s:\n%s", what, name, text)
		}
	}
}

func (c *crew) write(name string) {
	c.t.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, name), nil, 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// ends waits for the end of a worker.
func (c *crew) ends(worker *exec.Cmd, most time.Duration) error {
	c.t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- worker.Wait() }()
	select {
	case err := <-ended:
		return err
	case <-time.After(most):
		c.t.Errorf("the worker has not ended after %v", most)
		_ = worker.Process.Kill()
		return <-ended
	}
}

// A worker that is told to end lets its tasks end there and gives back what has not begun, which another
// worker runs, once. A second signal ends it at once, and so does the deadline; no child is left. The metrics
// of both say what they did.
func TestWorkEnds(t *testing.T) {
	t.Parallel()
	c := newCrew(t, `
tools:
  build: {shell: 'echo $WHO >> $DIR/ran; echo begun on $WHO; while [ ! -e $DIR/go-$WHO ]; do sleep 0.02; done; echo done', maxConcurrent: 1, runs: builds, retry: 1}
  stubborn: {shell: "trap '' TERM; echo $$ >> $DIR/pids; while :; do sleep 0.02; done", grace: 1m, runs: builds}
  slow: {shell: 'echo $$ >> $DIR/pids; exec sleep 600', runs: builds}
`)
	one, ones := c.work("one", "--slots", "2", "--metrics", "127.0.0.1:0", "--log-format", "json")
	first, second := c.offer("build"), c.offer("build")
	c.file("ran", "one")
	c.until(`"running":\["[0-9a-f-]+","[0-9a-f-]+"\]`, "fleet", "-o", "json")
	if err := one.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	c.until(`waiting for a worker of class builds: 0 before it`, "tasks", "get", second)
	two, log := c.work("two", "--slots", "2", "--metrics", "127.0.0.1:0", "--log-format", "json")
	c.file("ran", `\Aone\ntwo\n\z`)
	c.write("go-two")
	_ = c.runs("tasks", "wait", second)
	for path, want := range map[string]int{"healthz": http.StatusOK,
		"readyz": http.StatusServiceUnavailable} {
		if status, said := probe(t, ones, path); status != want {
			t.Errorf("%s of a worker that ends: %d %s", path, status, said)
		}
	}
	page := scrape(t, ones)
	for _, line := range []string{`runnel_tasks_live 1`, `runnel_worker_slots 0`,
		`runnel_worker_handed_back_total{class="builds",why="leaving"} 1`} {
		if !strings.Contains(page, line+"\n") || strings.Contains(page, "ended_total") {
			t.Errorf("no %s, or an end that was another worker's, in:\n%s", line, page)
		}
	}
	c.write("go-one")
	if err := c.ends(one, watchdog); err != nil {
		t.Error(err)
	}
	for _, said := range []string{fmt.Sprintf(`"running":["build %s`, first),
		"takes no more tasks, and ends when those that run have ended", "this worker has ended"} {
		if !strings.Contains(ones.String(), said) {
			t.Errorf("the worker does not say %q:\n%s", said, ones)
		}
	}
	for id, who := range map[string]string{first: "one", second: "two"} {
		if out := c.runs("tasks", "wait", id) +
			c.runs("tasks", "result", id); !strings.Contains(out, "begun on "+who+"\ndone\n") ||
			strings.Contains(out, "attempt") {
			t.Errorf("%s: %s", who, out)
		}
	}
	c.file("ran", `\Aone\ntwo\n\z`)

	waits := c.offer("slow") // taken by two
	pid, err := strconv.Atoi(strings.TrimSpace(c.file("pids", `\d+\n`)))
	if err != nil {
		t.Fatal(err)
	}
	page = scrape(t, log)
	for _, line := range []string{
		`runnel_worker_taken_total{class="builds",tool="build",attempt="1"} 1`,
		`runnel_worker_taken_total{class="builds",tool="slow",attempt="1"} 1`,
		`runnel_worker_wait_seconds_count{class="builds"} 2`,
		`runnel_worker_ended_total{status="completed",tool="build"} 1`,
		`runnel_tasks_live 1`, `runnel_worker_slots 2`,
		`runnel_fleet_up{owner="local"} 1`, `runnel_fleet_workers{owner="local",class="builds"} 1`,
		`runnel_fleet_slots{owner="local",class="builds"} 2`,
		`runnel_fleet_waiting{owner="local",class="builds"} 0`, `runnel_state_max_bytes{owner="local"} `,
		`runnel_state_replicas{owner="local"} 1`, `runnel_state_replicas_current{owner="local"} 1`,
		`runnel_fleet_paused{owner="local",class="builds"} 0`,
	} {
		if !strings.Contains(page, line) {
			t.Errorf("no %s in:\n%s", line, page)
		}
	}
	if status, said := probe(t, log, "readyz"); status != http.StatusOK {
		t.Errorf("a worker is not ready: %d %s", status, said)
	}
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		if err := two.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
		if s == syscall.SIGTERM {
			c.until("stopping", "fleet")
		}
	}
	if err := c.ends(two, watchdog); err == nil || two.ProcessState.ExitCode() != 130 {
		t.Errorf("%v", err)
	}
	gone(t, pid)
	_ = c.runs("tasks", "cancel", waits)

	three, _ := c.work("three", "--slots", "1", "--drain", "100ms")
	c.offer("slow")
	pids := strings.Fields(c.file("pids", `\d+\n\d+\n`))
	if pid, err = strconv.Atoi(pids[1]); err != nil {
		t.Fatal(err)
	}
	if err := three.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := c.ends(three, watchdog); err != nil {
		t.Error(err)
	}
	gone(t, pid)
}

// A user who has confirmed a call on a worker that then hands it back is not asked again by a worker whose
// questions cannot be answered.
func TestHandedBackConfirmed(t *testing.T) {
	t.Parallel()
	c := newCrew(t, `
tools:
  guarded: {shell: 'echo $WHO >> $DIR/ran; while [ ! -e $DIR/go ]; do sleep 0.02; done', confirm: "Really?", maxConcurrent: 1, runs: builds}
  other: {shell: 'true', runs: builds}
`)
	front := writeConfig(t, "tools: {guarded: {runs: builds}}")
	call := func() *exec.Cmd {
		cmd := exec.Command(c.program, append([]string{"call", "--yes", "guarded"}, front...)...)
		cmd.Env = c.env
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		return cmd
	}
	one, _ := c.work("one", "--slots", "2")
	call()
	c.file("ran", `\Aone\n\z`)
	second := call()
	c.until(`"running":\["[0-9a-f-]+","[0-9a-f-]+"\]`, "fleet", "-o", "json")
	if err := one.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	c.until(`"waiting":\{"builds":1\}`, "fleet", "-o", "json")
	_ = second.Process.Kill()
	c.work("two")
	c.file("ran", `\Aone\ntwo\n\z`)
	c.write("go")
}

// A task that is handed back in its second attempt, before that has begun, says once where it runs: where it
// has begun.
func TestHandedBackAttempt(t *testing.T) {
	t.Parallel()
	c := newCrew(t, `
tools:
  build: {shell: 'echo $WHO >> $DIR/ran; echo begun on $WHO; while [ ! -e $DIR/go-$WHO ]; do sleep 0.02; done', maxConcurrent: 1, runs: builds, retry: 1}
  other: {shell: 'true', runs: builds}
`)
	zero, _ := c.work("zero", "--slots", "1")
	task := c.offer("build")
	c.file("ran", `zero\n`)
	if err := zero.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	one, _ := c.work("one", "--slots", "2")
	c.offer("build")
	c.file("ran", `\Azero\none\n\z`)
	c.until(`"running":\["[0-9a-f-]+","`+task+`"\]`, "fleet", "-o", "json")
	if err := one.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	c.until(`waiting for a worker of class builds: 0 before it \(attempt 2`, "tasks", "get", task)
	c.work("two")
	c.file("ran", `\Azero\none\ntwo\n\z`)
	c.write("go-one")
	c.write("go-two")
	if out := c.runs("tasks", "tail", "-f", task); strings.Count(out, "[attempt 2 on ") != 1 ||
		!strings.Contains(out, "\nbegun on two\n") {
		t.Errorf("%s", out)
	}
}

// A worker takes nothing of a class whose tools run as often as they may: another worker may have time for
// it. When one has ended it takes more.
func TestWorkerTakesWhatItCanRun(t *testing.T) {
	t.Parallel()
	c := newCrew(t, `
tools:
  build: {shell: 'echo $WHO >> $DIR/ran; while [ ! -e $DIR/go-$WHO ]; do sleep 0.02; done', maxConcurrent: 1, runs: builds}
  check: {shell: 'echo $WHO >> $DIR/checked', runs: checks}
`)
	c.work("one", "--slots", "3")
	c.offer("build")
	c.file("ran", `\Aone\n\z`)
	c.offer("build")
	c.offer("check") // of another class
	c.file("checked", `\Aone\n\z`)
	c.until(`"waiting":\{"builds":1\}`, "fleet", "-o", "json")
	c.work("two", "--slots", "3")
	c.file("ran", `\Aone\ntwo\n\z`)
	c.offer("build")
	c.until(`"waiting":\{"builds":1\}`, "fleet", "-o", "json")
	c.write("go-one")
	c.file("ran", `\Aone\ntwo\none\n\z`)
	c.write("go-two")
}

// An owner who offers many tasks does not keep another owner's tasks waiting, and is not told their ids.
func TestFleetIsFair(t *testing.T) {
	t.Parallel()
	c := newCrew(t, `
tools:
  note: {shell: 'echo "$who" >> $DIR/order', input: {who: {type: string}}, runs: builds, task: optional}
  slow: {shell: 'exec sleep 600', runs: builds}
`)
	cmd := exec.Command(c.program, append(c.config, "--owner", "much")...)
	cmd.Env = c.env
	front := process(t, cmd)
	front.open()
	const many = 100
	for n := range many {
		front.sendLine(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"note","arguments":{"who":"much"},"task":{}}}`, n+1)
	}
	c.until(fmt.Sprintf(`"waiting":{"builds":%d}`, many), "fleet", "-o", "json", "--owner", "much")
	for range 2 {
		c.offer("note", "who=little", "--owner", "little")
	}
	c.work("one", "--slots", "1", "--owners", "much,little")
	order := strings.Fields(c.file("order", `(little\n(.*\n)*){2}`))
	for n, who := range order {
		if who == "little" && n > 4 {
			t.Errorf("%d stand before a task of the owner who has two: %q", n, order)
		}
	}
	slow := c.offer("slow", "--owner", "little")
	c.until(`"running":\["`+slow+`"\]`, "fleet", "-o", "json", "--owner", "little")
	c.until(`"running":\[""\]`, "fleet", "-o", "json", "--owner", "much")
}

// A call of high priority that was made last runs first, and a low one last, also through a front that has
// the tools from the workers alone.
func TestFleetPriority(t *testing.T) {
	t.Parallel()
	c := newCrew(t, `
tools:
  low: {shell: 'echo low >> $DIR/order', runs: builds, priority: low}
  normal: {shell: 'echo normal >> $DIR/order', runs: builds}
  high: {shell: 'echo high >> $DIR/order', runs: builds, priority: high}
`)
	for range 2 {
		for _, tool := range []string{"low", "normal", "high"} {
			c.offer(tool)
		}
	}
	c.work("one", "--slots", "1")
	order := strings.Fields(c.file("order", `(.*\n){6}`))
	if order[0] != "high" || slices.Index(order, "low") < 4 {
		t.Errorf("%q", order)
	}
	c.until(`"name":"high".*"runnel/priority":"high"`, "fleet", "-o", "json")
}

// An owner has no more slots of a worker than its quota, though others are free. When one of its calls has
// ended, the next one begins.
func TestOwnerSlots(t *testing.T) {
	t.Parallel()
	c := newCrew(t, `
tools:
  hold: {shell: 'echo "$who" >> $DIR/order; while [ ! -e "$DIR/go-$who" ]; do sleep 0.02; done', input: {who: {type: string}}, runs: builds}
`)
	c.work("one", "--slots", "4", "--owner-slots", "2", "--owners", "much,little")
	for range 3 {
		c.offer("hold", "who=much", "--owner", "much")
	}
	c.file("order", `\A(much\n){2}\z`)
	c.offer("hold", "who=little", "--owner", "little")
	c.file("order", `\A(much\n){2}little\n\z`)
	c.until(`"waiting":\{"builds":1\}`, "fleet", "-o", "json", "--owner", "much")
	c.write("go-much")
	c.file("order", `\A(much\n){2}little\nmuch\n\z`)
	c.write("go-little")
}

// While a worker runs a call, the client at the front hears that it lives, and sets its variables; the
// front's metrics show the worker, and all that the alerts name.
func TestFleetFront(t *testing.T) {
	t.Parallel()
	c := newCrew(t, `
tasks: {heartbeat: 100ms}
tools:
  slow: {shell: 'echo begun; while [ ! -e $DIR/go ]; do sleep 0.02; done; echo "{\"from\":\"the worker\"}" > "$RUNNEL_VARIABLES"', runs: builds}
  waits: {shell: date, runs: nobody}
`)
	c.work("one", "--slots", "2", "--class", "builds")
	serve := func(args ...string) *exec.Cmd {
		cmd := exec.Command(c.program, append(c.config, args...)...)
		cmd.Env = c.env
		return cmd
	}
	hears := process(t, serve())
	hears.open()
	hears.sendLine(`{"jsonrpc":"2.0","id":"plain","method":"tools/call","params":{"name":"slow","arguments":{},"_meta":{"progressToken":"p"}}}`)
	for came := 0; came < 4; { // nothing more comes from the command
		if line := string(hears.line()); strings.Contains(line, "begun") ||
			came > 0 && strings.Contains(line, `"progressToken":"p"`) {
			came++
		}
	}

	w := newWitness(t, serve("--metrics", "127.0.0.1:0", "--log-format", "json"))
	var created mcp.CreateTaskResult
	w.must(&created, "tools/call",
		map[string]any{"name": "slow", "arguments": map[string]any{}, "task": map[string]any{}})
	id := map[string]any{"taskId": created.Task.TaskID}
	c.until(`"running":\["[0-9a-f-]+","[0-9a-f-]+"\]`, "fleet", "-o", "json")
	if a := w.call("runnel/tasks/variables",
		map[string]any{"taskId": created.Task.TaskID,
			"set": map[string]any{"to": "you"}}); string(a.Result) != `{"variables":{"to":"you"}}` {
		t.Errorf("%s %+v", a.Result, a.Error)
	}
	waits := map[string]any{"name": "waits", "arguments": map[string]any{}, "task": map[string]any{}}
	w.must(&mcp.CreateTaskResult{}, "tools/call", waits)
	c.until(`1 waiting for a worker of class nobody`, "fleet")
	page := scrape(t, &w.log)
	for _, line := range []string{`runnel_fleet_slots{owner="local",class="builds"} 2`,
		`runnel_fleet_running{owner="local",class="builds"} 2`, `runnel_tasks_live 2`} {
		if !strings.Contains(page, line+"\n") {
			t.Errorf("no %s in:\n%s", line, page)
		}
	}
	alerts, err := os.ReadFile("testdata/deploy/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range regexp.MustCompile(`runnel_\w+`).FindAllString(string(alerts), -1) {
		if !strings.Contains(page, "\n"+name+"{") {
			t.Errorf("an alert names %s, which is not in:\n%s", name, page)
		}
	}
	c.write("go")
	if a := w.call("tasks/result", id); !strings.Contains(string(a.Result),
		`"runnel/variables":{"from":"the worker","to":"you"}`) {
		t.Errorf("%s %+v", a.Result, a.Error)
	}
	w.end()
}

// A plain call on a worker ends with the host that made it, however that ends. One that was handed over goes
// on.
func TestCallEndsWithItsHost(t *testing.T) {
	t.Parallel()
	c := newCrew(t, `
tools:
  slow: {shell: 'echo $$ >> $DIR/$how; exec sleep 600', input: {how: {type: string}}, runs: builds}
`)
	c.work("one", "--slots", "8")
	front := func(how string, args ...string) *session {
		cmd := exec.Command(c.program, append(c.config, args...)...)
		cmd.Env = c.env
		s := process(t, cmd)
		s.open()
		for id := range 2 {
			s.sendLine(`{"jsonrpc":"2.0","id":%d,"method":"tools/call",`+
				`"params":{"name":"slow","arguments":{"how":"%s"}}}`, id, how)
		}
		c.file(how, `\A\d+\n\d+\n\z`)
		return s
	}
	handed := front("handed", "--set", "tasks.syncWait=300ms")
	for answers := 0; answers < 2; {
		if line := string(handed.line()); strings.Contains(line, `"id":`) {
			answers++
			if !strings.Contains(line, "is still running, as task") {
				t.Fatal(line)
			}
		}
	}
	end := map[string]func(*session) error{
		"EOF":  (*session).closeStdin,
		"TERM": func(s *session) error { return syscall.Kill(s.pid, syscall.SIGTERM) },
		"KILL": func(s *session) error { return syscall.Kill(s.pid, syscall.SIGKILL) },
	}
	if err := end["KILL"](handed); err != nil {
		t.Fatal(err)
	}
	for how, end := range end {
		if err := end(front(how)); err != nil {
			t.Fatal(err)
		}
	}
	for how := range end {
		for _, pid := range strings.Fields(c.file(how, `\d`)) {
			n, err := strconv.Atoi(pid)
			if err != nil {
				t.Fatal(err)
			}
			gone(t, n)
		}
	}
	c.until(`\(the newest of 6\) cancelled by the client`, "tasks", "list")
	for _, pid := range strings.Fields(c.file("handed", `\d`)) {
		if _, err := os.Stat("/proc/" + pid); err != nil {
			t.Errorf("what was handed over has ended, too: %v", err)
		}
	}
}

// What cannot work says so, and what to do: a server or a worker whose state does not answer, a call for which
// there is no worker, and the fleet of a state that has none.
func TestFleetSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	c := newCrew(t, `tools: {slow: {shell: "sleep 600", runs: builds}}`)
	dead := *c
	dead.env = append(slices.Clone(c.env), "RUNNEL_STATE=nats://127.0.0.1:1")
	_, says := dead.work("dead", "--metrics", "127.0.0.1:0", "--log-format", "json")
	cmd := exec.Command(c.program, append(c.config, "--http", "127.0.0.1:0", "--log-format", "json")...)
	cmd.Env = dead.env
	front := process(t, cmd)
	for _, log := range []*syncBuffer{says, front.stderr} {
		for deadline := time.Now().Add(watchdog); !strings.Contains(log.String(),
			"until the state answers: start its server"); {
			if time.Now().After(deadline) {
				t.Fatal(log)
			}
			time.Sleep(20 * time.Millisecond)
		}
		for path, want := range map[string]int{"healthz": http.StatusOK,
			"readyz": http.StatusServiceUnavailable} {
			if status, said := probe(t, log, path); status != want {
				t.Errorf("%s: %d %s", path, status, said)
			}
		}
	}
	for range 2 {
		call, says := exec.Command(c.program, append([]string{"call", "slow"}, c.config...)...), &syncBuffer{}
		call.Env, call.Stderr = c.env, says
		if err := call.Start(); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(watchdog); !strings.Contains(says.String(),
			"no worker of class builds is there"); {
			if time.Now().After(deadline) {
				t.Errorf("%s", says)
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		_ = call.Process.Kill()
		_ = call.Wait()
	}
	if out := c.runs("fleet", "--state", "memory"); !strings.Contains(out,
		"name it with --state nats://HOST:4222") {
		t.Errorf("%s", out)
	}
}

// A worker of several owners obeys the first of them: another one is refused, and sees what the first has done.
func TestFleetOrdersOfAnotherOwner(t *testing.T) {
	t.Parallel()
	c := newCrew(t, `
tools:
  build: {shell: 'true', runs: builds}
`)
	c.work("one", "--name", "blue", "--owners", "local,bob")
	c.until(`(?m)^blue `, "fleet", "--owner", "bob")
	for range 2 {
		for _, order := range [][]string{{"drain", "blue"}, {"pause", "builds"}} {
			if out := c.runs("fleet", order[0], order[1], "--owner", "bob"); !strings.Contains(out,
				"does not obey bob, but the first of its --owners") {
				t.Errorf("%v: %s", order, out)
			}
		}
		if out := c.runs("fleet", "--owner", "bob"); strings.Contains(out, "paused") ||
			strings.Contains(out, "stopping") {
			t.Errorf("%s", out)
		}
		if out := c.runs("fleet", "pause", "builds"); out != "" {
			t.Errorf("%s", out)
		}
		c.until(`class builds is paused`, "fleet", "--owner", "bob")
		_ = c.runs("fleet", "resume", "builds")
		for deadline := time.Now().Add(watchdog); strings.Contains(c.runs("fleet", "--owner", "bob"),
			"paused"); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("still paused")
			}
		}
	}
}

// An operator sees what all owners have: a worker of two owners once, with the tasks of both.
func TestFleetOfAllOwners(t *testing.T) {
	t.Parallel()
	c := newCrew(t, `
tools:
  build: {shell: 'while [ ! -e $DIR/go ]; do sleep 0.02; done', runs: builds}
`)
	c.work("one", "--name", "blue", "--owners", "local,bob", "--slots", "2")
	var ids []string
	for _, owner := range []string{"local", "bob"} {
		ids = append(ids, c.offer("build", "--owner", owner)[:8])
		c.until(`(?m)^blue .* `+ids[len(ids)-1]+` build since `, "fleet", "--owner", owner)
	}
	for _, owner := range []string{"local", "bob"} {
		c.offer("build", "--owner", owner)
	}
	for range 2 {
		c.until(`^NAME .*\nblue .* `+ids[1]+` build of bob since \S+, `+ids[0]+` build of local since \S+ *\n`+
			`1 of bob waiting for a worker of class builds, .*\n1 of local waiting for a worker of class builds, .*\n$`,
			"fleet", "--all-owners")
		c.until(`^\{"owners":\{"bob":\{.*"waiting":\{"builds":1\}.*"local":\{.*"waiting":\{"builds":1\}`,
			"fleet", "--all-owners", "-o", "json")
	}
	c.write("go")
}

// People drain a worker by its name: it ends when what runs there has ended, and one that comes after it works.
// They pause a class, whose calls then wait, and resume it.
func TestFleetOrders(t *testing.T) {
	t.Parallel()
	c := newCrew(t, `
tools:
  build: {shell: 'echo $WHO >> $DIR/ran; while [ ! -e $DIR/go ]; do sleep 0.02; done', runs: builds}
  other: {shell: 'echo $WHO >> $DIR/others', runs: others}
`)
	one, _ := c.work("one", "--name", "blue", "--label", "zone=a", "--slots", "2")
	c.offer("build")
	c.file("ran", `one`)
	c.until(`(?m)^blue .* zone=a +[0-9a-f]{8} build since `, "fleet")
	if out := c.runs("fleet", "drain", "green"); !strings.Contains(out, `no worker is named "green"`) {
		t.Errorf("%s", out)
	}
	if out := c.runs("fleet", "drain", "blue"); out != "" {
		t.Errorf("%s", out)
	}
	c.until(`(?m)^blue .* stopping `, "fleet")
	_, log := c.work("two", "--name", "blue", "--slots", "2", "--metrics", "127.0.0.1:0",
		"--log-format", "json")
	gauge := func(line string) {
		t.Helper()
		for deadline := time.Now().Add(watchdog); !strings.Contains(scrape(t, log),
			line+"\n"); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("no %s in:\n%s", line, scrape(t, log))
			}
		}
	}
	c.offer("build")
	c.file("ran", `\Aone\ntwo\n\z`)
	c.write("go")
	if err := c.ends(one, watchdog); err != nil {
		t.Error(err)
	}
	logs := []*syncBuffer{log}
	reads := func(what string, times int, logs ...*syncBuffer) {
		t.Helper()
		for _, log := range logs { // of all workers: one that has not read it takes the task
			for deadline := time.Now().Add(watchdog); strings.Count(log.String(),
				what) < times; time.Sleep(20 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal(log)
				}
			}
		}
	}
	for n := range 2 {
		if out := c.runs("fleet", "pause", "others"); out != "" {
			t.Errorf("%s", out)
		}
		c.until(`class others is paused; runnel fleet resume others ends that`, "fleet")
		reads(`"paused":["others"]`, n+1, logs...)
		gauge(`runnel_fleet_paused{owner="local",class="others"} 1`)
		gauge(`runnel_fleet_slots{owner="local",class="others"} 0`)
		_, log := c.work("three", "--slots", "1", "--log-format", "json")
		waits := c.offer("other")
		c.offer("build")
		c.until(fmt.Sprintf(`(?m)^%.8s +working`, waits), "tasks", "list")
		_ = c.runs("fleet", "resume", "others")
		c.file("others", fmt.Sprintf(`\A(\w+\n){%d}\z`, n+1))
		reads(`"paused":[]`, n+1, logs...)
		reads(`"paused":[]`, 1, log)
		gauge(`runnel_fleet_paused{owner="local",class="others"} 0`)
		logs = append(logs, log)
	}
}
