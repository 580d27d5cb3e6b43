package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"runnel/rpc/mcp"
)

// noting is a program that notes each notice on a line of a file: the task's id and status.
func noting(t *testing.T) (program, file string) {
	t.Helper()
	dir := t.TempDir()
	program, file = filepath.Join(dir, "notify-send"), filepath.Join(dir, "noted")
	script := "#!/bin/sh\necho \"$RUNNEL_TASK_ID $RUNNEL_TASK_STATUS $4\" >> '" + file + "'\n"
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return program, file
}

// noticed are the notices of a task that have come, once there is one.
func noticed(t *testing.T, file, id string) []string {
	t.Helper()
	for deadline := time.Now().Add(watchdog); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if list := noticesOf(file, id); len(list) > 0 {
			return list
		}
	}
	t.Fatalf("nobody was told of %s", id)
	return nil
}

func noticesOf(file, id string) (list []string) {
	text, _ := os.ReadFile(file)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, id+" ") {
			list = append(list, strings.TrimSpace(strings.TrimPrefix(line, id)))
		}
	}
	return list
}

// ended waits for the end of a task.
func (w *witness) ended(id string) {
	w.t.Helper()
	var result mcp.CallToolResult
	w.must(&result, "tasks/result", map[string]any{"taskId": id})
}

// --notify shows a call of any tool on the desktop, whose end is told before runnel leaves.
func TestNotify(t *testing.T) {
	t.Parallel()
	program, file := noting(t)
	cmd := programCommand(t, "call", "fail", "message=--no\x1b[1m<b>", "--selftest", "--notify", "0",
		"--state", "memory")
	cmd.Env = append(cmd.Env, "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"))
	out, _ := cmd.CombinedOutput()
	text, _ := os.ReadFile(file)
	if line := string(text); !strings.HasSuffix(line, " failed --no&lt;b&gt;\n") ||
		strings.Count(line, "\n") != 1 {
		t.Errorf("%q\n%s", line, out)
	}
}

// A task of a runnel that was killed is told by one of those that are left, once; what they run themselves
// too, and what another one cancels.
func TestNoticeIsToldOnce(t *testing.T) {
	t.Parallel()
	program, file := noting(t)
	args := append(writeConfig(t, fmt.Sprintf(`
notify: {after: 0, command: [%q]}
tools:
  wait: {shell: 'echo waits; exec sleep 600'}
  soon: {shell: 'sleep 0.3; echo over'}
  quiet: {shell: 'echo over', notify: never}
`, program)), "--state", t.TempDir())
	killed := newWitness(t, programCommand(t, args...))
	one := newWitness(t, programCommand(t, args...))
	other := newWitness(t, programCommand(t, args...))
	lost, cancelled := killed.start("wait", time.Hour, nil), one.start("wait", time.Hour, nil)
	own, quiet := other.start("soon", time.Hour, nil), other.start("quiet", time.Hour, nil)
	killed.kill()
	one.ended(lost)
	other.ended(lost)
	var ignored mcp.Task
	other.must(&ignored, "tasks/cancel", map[string]any{"taskId": cancelled})
	for id, want := range map[string]string{lost: "failed", cancelled: "cancelled", own: "completed"} {
		if got := noticed(t, file, id)[0]; got != want {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
	}
	one.end()
	other.end() // what they have to tell is told by now
	for _, id := range []string{lost, cancelled, own} {
		if list := noticesOf(file, id); len(list) != 1 {
			t.Errorf("%s: %q", id, list)
		}
	}
	if list := noticesOf(file, quiet); list != nil {
		t.Errorf("%q", list)
	}
}

// A detached task is told by its supervisor, whether the runnel that started it is there or not.
func TestNoticeOfADetachedTask(t *testing.T) {
	t.Parallel()
	program, file := noting(t)
	args := append(writeConfig(t, fmt.Sprintf(`
tools:
  wait: {shell: 'while [ ! -e %s.go ]; do sleep 0.02; done; echo over', detach: true, notify: {after: 0, command: [./notify-send]}}
`, file)), "--state", stateDir(t))
	// The command runs beside the config.
	if err := os.Link(program, filepath.Join(filepath.Dir(args[1]), "notify-send")); err != nil {
		t.Fatal(err)
	}
	killed, follows := newWitness(t, programCommand(t, args...)), newWitness(t, programCommand(t, args...))
	ids := []string{killed.start("wait", time.Hour, nil), follows.start("wait", time.Hour, nil)}
	killed.kill()
	if err := os.WriteFile(file+".go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		noticed(t, file, id)
		follows.ended(id)
		supervisorEnds(t, id)
	}
	follows.end()
	for _, id := range ids {
		if list := noticesOf(file, id); len(list) != 1 || list[0] != "completed" {
			t.Errorf("%s: %q", id, list)
		}
	}
}

// A server that does not answer holds up neither the end of a task nor that of runnel.
func TestNoticeHangs(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, 10)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else the end of its connection is not noticed
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	defer server.Close()
	w := newWitness(t, programCommand(t,
		append(writeConfig(t, "notify: {after: 0, url: "+server.URL+"}"), "--selftest", "--state",
			t.TempDir())...))
	for range 3 {
		w.ended(w.start("echo", time.Hour, map[string]any{"text": "fine"}))
	}
	<-asked
	began := time.Now()
	w.end()
	if took := time.Since(began); took > watchdog { // the server never answers
		t.Errorf("runnel ends after %v", took)
	}
	if n := strings.Count(w.log.String(), "a notice was not delivered"); n != 1 {
		t.Errorf("it was logged %d times\n%s", n, &w.log)
	}
}

// A task that a worker runs is notified once, by the runnel where the call was made: not by a worker, nor by
// a runnel that has given it back and still follows it.
func TestNoticesOfAFleet(t *testing.T) {
	t.Parallel()
	program, file := noting(t)
	c := newCrew(t, fmt.Sprintf(`
notify: {after: 0, command: [%q]}
tools:
  build: {shell: 'echo $WHO >> $DIR/ran; while [ ! -e $DIR/go-$WHO ]; do sleep 0.02; done', maxConcurrent: 1, runs: builds}
  other: {shell: 'true', runs: builds} # for which the worker goes on to take calls of the class
`, program))
	one, log := c.work("one", "--slots", "2")
	cmd := exec.Command(c.program, c.config...)
	cmd.Env = c.env
	front := newWitness(t, cmd)
	first := front.start("build", time.Hour, nil)
	c.file("ran", "one")
	second := front.start("build", time.Hour, nil) // taken by the same worker, where it waits for its turn
	c.until(`"running":\["[0-9a-f-]+","[0-9a-f-]+"\]`, "fleet", "-o", "json")
	if err := one.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	two, _ := c.work("two", "--slots", "2")
	c.file("ran", `\Aone\ntwo\n\z`)
	c.write("go-two")
	noticed(t, file, second)
	front.ended(second)
	c.until(second+".*completed", "tasks", "list", "-o", "json")
	// The first worker has heard of it, too.
	for deadline := time.Now().Add(watchdog); !strings.Contains(log.String(),
		"task handed back"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the first worker does not hear of the end")
		}
	}
	c.write("go-one")
	noticed(t, file, first)
	if err := two.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for _, worker := range []*exec.Cmd{one, two} {
		if err := c.ends(worker, watchdog); err != nil {
			t.Error(err)
		}
	}
	front.end() // what they have to tell is told by now
	for _, id := range []string{first, second} {
		if list := noticesOf(file, id); len(list) != 1 {
			t.Errorf("%s: %q", id, list)
		}
	}
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, second) && strings.Contains(line, "task ended") {
			t.Errorf("it did not end there: %s", line)
		}
	}
}
