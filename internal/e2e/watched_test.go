package e2e

import (
	"bufio"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/kballard/go-shellquote"

	"runnel/rpc"
	httpclient "runnel/rpc/http/client"
)

// watched looks at a task that another runnel runs and that has written "begun", with runnel top and with
// runnel ui, and cancels it in the first.
func watched(t *testing.T, program string, env []string, id, tool string) {
	t.Helper()
	ui := exec.Command(program, "ui", "--no-open")
	ui.Env = append(env, noConfig)
	out, err := ui.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := ui.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ui.Process.Signal(syscall.SIGTERM); _ = ui.Wait() }()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	token := strings.TrimPrefix(at.Fragment, "token=")
	at.Fragment = ""
	c, err := httpclient.Dial(t.Context(),
		httpclient.Options{URL: at.String() + "mcp",
			Header: http.Header{"Authorization": {"Bearer " + token}}},
		rpc.DialOptions{Version: "2026-07-28", Capabilities: showsApps})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	var list struct {
		Tasks []struct{ TaskID, Status string }
	}
	page{c, t}.get(&list, "view_tasks", `{}`)
	runs := false
	for _, task := range list.Tasks {
		runs = runs || task.TaskID == id && task.Status == "working"
	}
	if !runs {
		t.Errorf("runnel ui: %+v", list)
	}

	screen := newTerminal(t)
	screen.run("env -i " + shellquote.Join(env...) + " TERM=tmux " + noConfig + " " + program +
		" top; echo ended=$?")
	screen.wait(`(?m)\Arunnel top  1 running, .*\n.*\n> ` + id[:8] + ` working +` + tool + ` .* begun *$`)
	screen.keys("Enter")
	screen.wait(`(?m)\A` + tool + ` ` + id[:8] + `  working .*\nbegun`)
	screen.keys("q", "c", "y")
	screen.wait(`(?m)^> ` + id[:8] + ` cancelled +` + tool)
	screen.keys("q")
	screen.wait(`ended=0`)
}
