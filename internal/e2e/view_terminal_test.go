package e2e

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"runnel/rpc"
)

// viewedScreen is what view_screen answers.
type viewedScreen struct {
	Text                       string
	Row, Column, Columns, Rows int
	Next                       int64
}

// until waits until the screen of a task has a text.
func (p page) until(id, want string) (s viewedScreen) {
	p.t.Helper()
	for deadline := time.Now().Add(watchdog); !strings.Contains(s.Text, want); {
		p.get(&s, "view_screen", fmt.Sprintf(`{"taskId":%q,"after":%d,"waitMs":1000}`, id, s.Next))
		if time.Now().After(deadline) {
			p.t.Fatalf("%q never comes: %+v", want, s)
		}
	}
	return s
}

// A person sees the screen of a task in the page and types into it, also through another runnel than the one
// that runs the task; what the task has made is listed, with the size of pictures. Of other tasks there is no
// screen.
func TestViewOfATerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	picture := noise(t, 40, 30)
	const header, checksum = 12, 29 // the places of the first chunk (PNG specification, 5.3)
	bomb := binary.BigEndian.AppendUint32(bytes.Clone(picture[:header+4]), 1<<20)
	bomb = append(binary.BigEndian.AppendUint32(bomb, 1<<20), picture[len(bomb)+4:]...)
	binary.BigEndian.PutUint32(bomb[checksum:], crc32.ChecksumIEEE(bomb[header:checksum]))
	work := filepath.Join(dir, "work")
	if err := os.Mkdir(work, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"plot.png": picture, "large.png": bomb,
		"damaged.png": picture[:20], "notes.txt": []byte("notes\n")} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config := append(writeConfig(t, fmt.Sprintf(`
tools:
  shell: {shell: 'stty -echo; echo ready; while read -r line; do echo "<$line>"; done; echo ended', interactive: true, size: 60x10}
  made: {shell: 'mkdir -p out/$n; cp ../*.png ../notes.txt out/$n/', dir: %q, input: {n: {type: string}}, artifacts: ["out/*/*"]}
`, work)), "--state", stateDir(t))
	s := serveHTTP(t, config...)
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) { // in turns: two calls at once would both have the files of both
			here := dialPage(t, s.url, rpc.DialOptions{Version: version})
			there := dialPage(t, "", rpc.DialOptions{Command: itself(t, config...)[1:],
				Env: append(environ(t), noConfig), Version: version})
			for round := range 2 {
				var task struct{ TaskID string }
				here.get(&task, "view_run", `{"tool":"shell","arguments":{}}`)
				here.until(task.TaskID, "ready")
				for n, p := range []page{here, there} {
					p.get(&struct{}{}, "view_type",
						fmt.Sprintf(`{"taskId":%q,"keys":["%d","é","x","BSpace","Enter"],"text":"two\nthree\r\n"}`,
							task.TaskID, n))
					got := p.until(task.TaskID, fmt.Sprintf("<%dé>\n<two>\n<three>", n))
					if got.Columns != 60 || got.Rows != 10 || got.Row != 5+3*n || got.Column != 1 {
						t.Errorf("%+v", got)
					}
				}
				here.get(&struct{}{}, "view_type", fmt.Sprintf(`{"taskId":%q,"keys":["C-d"]}`, task.TaskID))
				for _, p := range []page{here, there} {
					p.until(task.TaskID, "ended")
					p.follow(task.TaskID, func(string) {})
					if got := p.refused("view_type",
						fmt.Sprintf(`{"taskId":%q,"keys":["x"]}`, task.TaskID)); !strings.Contains(got, "has ended") {
						t.Errorf("after the end: %s", got)
					}
				}

				here.get(&task, "view_run",
					fmt.Sprintf(`{"tool":"made","arguments":{"n":"%s-%d"}}`, version, round))
				here.follow(task.TaskID, func(string) {})
				for _, p := range []page{here, there} {
					var made struct {
						Files []struct {
							Name, MimeType, URI string
							Size                int64
							Width, Height       int
						}
					}
					p.get(&made, "view_files", fmt.Sprintf(`{"taskId":%q}`, task.TaskID))
					var said []string
					for _, f := range made.Files {
						said = append(said, fmt.Sprintf("%s %s %dx%d", filepath.Base(f.Name), f.MimeType, f.Width,
							f.Height))
						if !strings.HasPrefix(f.URI, "runnel://tasks/"+task.TaskID+"/files/out/") || f.Size == 0 {
							t.Errorf("%+v", f)
						}
					}
					if got, want := strings.Join(said, "\n"), "damaged.png image/png 0x0\n"+
						"large.png image/png 0x0\nnotes.txt text/plain; charset=utf-8 0x0\nplot.png image/png 40x30"; got != want {
						t.Errorf("files:\n%s\nwant:\n%s", got, want)
					}
					var none viewedScreen
					p.get(&none, "view_screen", fmt.Sprintf(`{"taskId":%q}`, task.TaskID))
					if got := p.refused("view_type", fmt.Sprintf(`{"taskId":%q,"keys":["x"]}`, task.TaskID)); none !=
						(viewedScreen{}) || !strings.Contains(got, "this task has no screen") {
						t.Errorf("a task without a terminal: %+v, %s", none, got)
					}
				}
			}
		})
	}
}

// refused returns why a tool of the page refuses a call.
func (p page) refused(tool, arguments string) string {
	p.t.Helper()
	var r struct {
		Content []struct{ Text string }
		IsError bool
	}
	err := p.Call(p.t.Context(), "tools/call",
		map[string]any{"name": tool, "arguments": json.RawMessage(arguments)}, &r)
	if err != nil || !r.IsError {
		p.t.Fatalf("%s %s: %+v, %v", tool, arguments, r, err)
	}
	return r.Content[0].Text
}
