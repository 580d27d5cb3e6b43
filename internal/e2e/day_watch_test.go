//go:build linux

package e2e

import (
	"bufio"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/kballard/go-shellquote"

	"runnel/rpc"
	httpclient "runnel/rpc/http/client"
)

// watch opens runnel top on a screen and runnel ui in a browser. They stay open all day; look looks whether
// they still show what runs.
func (d *day) watch() (look func()) {
	d.hosts[1].make(d.hosts[1].newCall("task")) // without a state there is nothing to watch
	screen := newTerminal(d.t)
	screen.tmux("resize-window", "-x", "120", "-y", "30")
	// A shell would say that it was stopped.
	screen.run("cd " + d.dir + "; exec env -i " + shellquote.Join(append(d.environ(d.dir), "TERM=tmux")...) +
		" " + filepath.Join(d.dir, groundProgram) + " top")
	screen.wait(`(?m)\Arunnel top  `)

	ui := d.command(d.dir, "ui", "--no-open")
	var log syncBuffer
	ui.Stderr = &log
	out, err := ui.StdoutPipe()
	if err != nil {
		d.t.Fatal(err)
	}
	if err := ui.Start(); err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() {
		_ = ui.Process.Signal(syscall.SIGTERM)
		_ = ui.Wait()
		if broken.MatchString(log.String()) {
			d.t.Errorf("runnel ui: %s", &log)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		d.t.Fatalf("runnel ui: %v\n%s", err, &log)
	}
	at, err := url.Parse(strings.TrimSpace(line))
	if err != nil {
		d.t.Fatal(err)
	}
	header := http.Header{"Authorization": {"Bearer " + strings.TrimPrefix(at.Fragment, "token=")}}
	at.Fragment = ""
	c, err := httpclient.Dial(d.t.Context(), httpclient.Options{URL: at.String() + "mcp", Header: header},
		rpc.DialOptions{Version: "2026-07-28", Capabilities: showsApps})
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = c.Close() })
	return func() {
		screen.wait(`(?m)\Arunnel top  `)
		shown := map[string]string{}
		var list struct {
			Tasks []struct{ TaskID, Status string }
			Next  string
		}
		page{c, d.t}.get(&list, "view_tasks", `{}`)
		for _, task := range list.Tasks {
			shown[task.TaskID] = task.Status
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		for id, end := range d.tasks {
			if status, listed := shown[id]; listed && status != end.status {
				d.t.Errorf("%v has ended %s, and runnel ui shows %s", end.call, end.status, status)
			}
		}
		d.counts["looks at the view"]++
	}
}
