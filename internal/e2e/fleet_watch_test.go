package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"runnel/tasks"
)

// A person watches workers come, run and go on a terminal, a program as lines.
func TestFleetWatch(t *testing.T) {
	t.Parallel()
	c := newCrew(t, `
tools:
  slow: {shell: 'while [ ! -e $DIR/go ]; do sleep 0.02; done', runs: builds}
`)
	screen := newTerminal(t)
	screen.run(strings.Join(c.env[len(c.env)-2:], " ") + " " + c.program + " fleet --watch; echo ended=$?")
	screen.wait(`(?m)\Arunnel fleet  nats://\S+ \(local\)  \d\d:\d\d:\d\d\n\nno workers; runnel work starts one\n`)
	id := c.offer("slow")
	screen.wait(`(?m)^1 waiting for a worker of class builds, the first since \d{4}-\d\d-\d\d \d\d:\d\d:\d\d$`)
	worker, _ := c.work("one", "--slots", "2")
	screen.wait(fmt.Sprintf(`(?m)^NAME +HOST +PID +CLASSES +RUNS +SLOTS .*\n\S+ +\S+ +%d +builds +1 +2 +0 +%s slow since \d\d:`,
		worker.Process.Pid, id[:8]))
	screen.tmux("resize-window", "-x", "30", "-y", "4")
	screen.wait(`(?m)^2 more lines`)
	screen.keys("C-c")
	screen.wait(`ended=130`)

	program := exec.Command(c.program, append([]string{"fleet", "--watch", "-o", "ndjson"}, c.config...)...)
	program.Env = c.env
	out, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = program.Process.Kill(); _ = program.Wait() })
	lines := bufio.NewScanner(out)
	next := func() (fleet struct{ Workers []tasks.Worker }) {
		t.Helper()
		if !lines.Scan() {
			t.Fatal("no line")
		}
		if err := json.Unmarshal(lines.Bytes(), &fleet); err != nil {
			t.Fatal(err)
		}
		return fleet
	}
	if now := next(); len(now.Workers) != 1 || len(now.Workers[0].Running) != 1 || now.Workers[0].Slots != 2 {
		t.Errorf("%s", lines.Text())
	}
	if err := worker.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if now := next(); len(now.Workers) != 1 || len(now.Workers[0].Running) != 1 || now.Workers[0].Slots != 0 {
		t.Errorf("%s", lines.Text())
	}
	c.write("go")
	for len(next().Workers) > 0 {
	}
}
