package e2e

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"runnel/rpc"
	"runnel/rpc/mcp"
)

// servedTools are the tools of tests that start a server in several ways.
const servedTools = `
tools:
  server:
    shell: 'echo starting; sleep 0.3; echo "listening on http://localhost:1/"; exec sleep 600'
    ready: 'listening on (\S+)'
`

// server is a client that starts the tool "server" of servedTools again and again.
type server struct {
	*rpc.Client
	t *testing.T
}

func (s server) texts(tool string, arguments map[string]any) string {
	s.t.Helper()
	var r mcp.CallToolResult
	if err := s.Call(s.t.Context(), "tools/call", map[string]any{"name": tool, "arguments": arguments},
		&r); err != nil {
		s.t.Fatalf("%s %v: %v", tool, arguments, err)
	}
	said := ""
	for _, item := range r.Content {
		text, _ := mcp.TextOf(item)
		said += text
	}
	return said
}

// start calls the tool, which is answered when it is ready, and returns the id of the task that goes on.
func (s server) start() string {
	s.t.Helper()
	said := s.texts("server", nil)
	id := taskID(said)
	if !strings.HasPrefix(said, "server: ready after ") ||
		!strings.Contains(said, " s: listening on http://localhost:1/\nIt goes on, as task "+id+
			". Call get_task_result ") ||
		!strings.HasSuffix(said, "\nstarting\nlistening on http://localhost:1/\n") {
		s.t.Fatalf("its call is answered with %q", said)
	}
	return id
}

// A plain call of a tool with "ready" is answered when it is ready, over every way in, in both eras, and also
// to a client that could take a task for it: the server decides what becomes a task, and who waits for the
// end of a server waits for ever. Its model finds the tools by which it reads on and stops it.
func TestReadyByEveryWay(t *testing.T) {
	t.Parallel()
	type way struct {
		over, version   string
		tasks, detached bool
	}
	ways := []way{{"stdio", "2025-11-25", false, true}, {"http", "2026-07-28", true, true}}
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		for _, tasks := range []bool{false, true} {
			ways = append(ways, way{"stdio", version, tasks, false}, way{"http", version, tasks, false})
		}
	}
	for _, w := range ways {
		t.Run(fmt.Sprintf("%s, %s, tasks %t, detached %t", w.over, w.version, w.tasks, w.detached),
			func(t *testing.T) {
				t.Parallel()
				yaml := servedTools
				if w.detached {
					yaml += "    detach: always\n"
				}
				args := append(writeConfig(t, yaml), "--state", stateDir(t))
				o := rpc.DialOptions{Version: w.version}
				if w.tasks {
					o.Capabilities = mcp.ClientCapabilities{Tasks: &mcp.ClientTasks{},
						Extensions: map[string]any{mcp.ExtensionTasks: map[string]any{}}}
				}
				if w.over == "http" {
					isServed(t, serveHTTP(t, args...).url, o)
				} else {
					o.Command, o.Env = itself(t, args...)[1:], append(environ(t), noConfig)
					isServed(t, "", o)
				}
			})
	}
}

// isServed starts two servers, one after the other, and stops them.
func isServed(t *testing.T, url string, o rpc.DialOptions) {
	c := dial(t, url, o)
	defer func() { _ = c.Close() }()
	s := server{c, t}
	var list struct{ Tools []struct{ Name string } }
	if err := c.Call(t.Context(), "tools/list", nil, &list); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, tool := range list.Tools {
		names[tool.Name] = true
	}
	if !names["get_task_result"] || !names["cancel_task"] {
		t.Errorf("its model has %v", names)
	}
	for range 2 {
		id := s.start()
		if said := s.texts("get_task_result",
			map[string]any{"task_id": id, "wait_ms": 0}); !strings.HasPrefix(said, "[working for ") &&
			!strings.Contains(said, "\n[working for ") {
			t.Errorf("it does not go on: %q", said)
		}
		if said := s.texts("cancel_task", map[string]any{"task_id": id}); !strings.HasSuffix(said,
			": cancelled") && !strings.HasSuffix(said, ": working") {
			t.Errorf("it is cancelled with %q", said)
		}
		said := ""
		for deadline := time.Now().Add(watchdog); !strings.Contains(said, "[cancelled") &&
			time.Now().Before(deadline); {
			said = s.texts("get_task_result", map[string]any{"task_id": id})
		}
		if !strings.Contains(said, "[cancelled") {
			t.Errorf("it ends with %q", said)
		}
	}
}

// The live view shows in its list since when a server is ready, not the last line that it has printed.
func TestReadyInTheView(t *testing.T) {
	t.Parallel()
	p := dialPage(t, "", rpc.DialOptions{Version: "2025-11-25", Env: append(environ(t), noConfig),
		Command: append(itself(t, writeConfig(t, servedTools)...)[1:], "--state", stateDir(t))})
	for n := range 2 {
		id := server{p.Client, t}.start()
		var list struct {
			Tasks []struct{ TaskID, Matches string }
		}
		p.get(&list, "view_tasks", `{}`)
		if len(list.Tasks) != n+1 {
			t.Errorf("it lists %v", list.Tasks)
		}
		for _, task := range list.Tasks {
			if task.TaskID == id && !strings.HasPrefix(task.Matches, "ready after ") {
				t.Errorf("it shows %q", task.Matches)
			}
		}
	}
}

// A tool with "ready" that a worker runs answers as one that runs here. When the worker is killed, the next
// attempt is ready by its own line, and what it finds is new although the first one found more.
func TestReadyOnAWorker(t *testing.T) {
	t.Parallel()
	c := newCrew(t, `
tasks: {heartbeat: 100ms}
tools:
  server:
    shell: 'echo starting; [ $WHO = one ] && echo "ERROR a" && echo "ERROR b"; while [ ! -e $DIR/$WHO ]; do sleep 0.02; done; echo "listening on $WHO"; exec sleep 600'
    ready: 'listening on (\S+)'
    watch: [{match: ERROR, as: error}, {match: starting, as: start}]
    runs: builds
    retry: 1
`)
	one, _ := c.work("one", "--slots", "4")
	c.write("one")
	cmd := exec.Command(c.program, c.config...)
	cmd.Env = c.env
	w := startWitness(&witness{t: t, patience: watchdog, plain: true}, cmd)
	var ids []string
	for range 2 {
		said, r := w.texts("server", nil)
		id := taskID(said)
		if r.IsError || !strings.HasPrefix(said, "server: ready after ") ||
			!strings.Contains(said, " s: listening on one\nIt goes on, as task "+id+". Call get_task_result ") ||
			!strings.Contains(said, "\nmatched error: ERROR a\nmatched error: ERROR b\n") {
			t.Errorf("its call is answered with %q", said)
		}
		ids = append(ids, id)
	}
	_ = one.Process.Kill()
	c.work("two", "--slots", "4")
	for _, id := range ids {
		until := func(what string) (all string) {
			t.Helper()
			for deadline := time.Now().Add(watchdog); !strings.Contains(all, what); {
				said, _ := w.texts("get_task_result", map[string]any{"task_id": id, "wait_ms": 500})
				if all += said; time.Now().After(deadline) {
					t.Fatalf("no %q: %q", what, all)
				}
			}
			return all
		}
		if said := until("matched start: starting\n"); strings.Contains(said, "ready after") {
			t.Errorf("the next attempt is ready too early: %q", said)
		}
		if list, _ := w.texts("list_tasks", nil); strings.Contains(list, "ready after") {
			t.Errorf("before it is ready, the list says %q", list)
		}
		if id == ids[1] {
			c.write("two")
			for _, id = range ids {
				if said := until("listening on two\n"); !strings.Contains(said, "ready after ") ||
					strings.Contains(said, "matched error") {
					t.Errorf("the next attempt: %q", said)
				}
				_, _ = w.texts("cancel_task", map[string]any{"task_id": id})
			}
		}
	}
	w.end()
}
