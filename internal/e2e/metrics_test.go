package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"runnel/rpc/mcp"
)

func TestMetrics(t *testing.T) {
	t.Parallel()
	w := newWitness(t, programCommand(t,
		append(writeConfig(t, `tasks: {maxLive: 1}`), "--selftest", "--metrics", ":0", "--log-format", "json",
			"--fallback-tools", "always")...))
	started := func(tool string, arguments map[string]any) answer {
		return w.call("tools/call", map[string]any{"name": tool, "task": map[string]any{},
			"arguments": arguments})
	}
	var created mcp.CreateTaskResult
	if err := json.Unmarshal(started("echo", map[string]any{"text": "secret"}).Result, &created); err != nil {
		t.Fatal(err)
	}
	// Each of these retrieves the result; tasks/get of a session does not carry it.
	w.must(&mcp.CallToolResult{}, "tasks/result", map[string]any{"taskId": created.Task.TaskID})
	w.must(&mcp.DetailedTask{}, "tasks/get",
		json.RawMessage(inEra(takes, "", `"taskId":"`+created.Task.TaskID+`"`)))
	w.must(&mcp.CallToolResult{}, "tools/call",
		map[string]any{"name": "get_task_result",
			"arguments": map[string]any{"task_id": created.Task.TaskID}})
	w.must(&mcp.Task{}, "tasks/get", map[string]any{"taskId": created.Task.TaskID})
	started("sleep", map[string]any{"ms": 600_000})
	if a := started("echo", map[string]any{"text": "x"}); a.Error == nil {
		t.Error("not refused")
	}
	page := scrape(t, &w.log)
	for _, line := range []string{
		`runnel_tasks_created_total{tool="echo"} 1`,
		`runnel_tasks_ended_total{status="completed",tool="echo"} 1`,
		`runnel_task_duration_seconds_count{tool="echo"} 1`,
		`runnel_tasks_live 1`,
		`runnel_task_results_retrieved_total 3`,
		`runnel_refusals_total{limit="live"} 1`,
	} {
		if !strings.Contains(page, line+"\n") {
			t.Errorf("no %s in:\n%s", line, page)
		}
	}
	w.end()
	// The audit: who did what with which task, and nothing of what it said.
	for event, times := range map[string]int{"task created": 2, "task result retrieved": 3, "task ended": 2,
		"task refused": 1} {
		n := 0
		for line := range strings.Lines(w.log.String()) {
			var e struct{ Message, TaskID, Owner string }
			if json.Unmarshal([]byte(line), &e) == nil && e.Message == event && e.TaskID != "" &&
				e.Owner == "local" {
				n++
			}
		}
		if n != times {
			t.Errorf("%s: %d events, want %d:\n%s", event, n, times, &w.log)
		}
	}
	if strings.Contains(w.log.String(), "secret") {
		t.Errorf("content in the log:\n%s", &w.log)
	}
}

// scrape reads the metrics of a process whose log, as JSON, says where they are.
func scrape(t *testing.T, log *syncBuffer) string {
	t.Helper()
	_, page := probe(t, log, "metrics")
	return page
}

// probe gets a page of the address that a log names.
func probe(t *testing.T, log *syncBuffer, path string) (status int, page string) {
	t.Helper()
	address := regexp.MustCompile(`"address":"(127\.0\.0\.1:[0-9]+)"`).FindStringSubmatch(log.String())
	if address == nil {
		t.Fatalf("no address on loopback:\n%s", log)
	}
	response, err := http.Get(fmt.Sprintf("http://%s/%s", address[1], path))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(bytes.TrimSpace(body)) + "\n"
}

// However many connections are opened, few are served at a time, those that say nothing are closed in time,
// and every line of the log is JSON.
func TestMetricsConnectionsAreFew(t *testing.T) {
	t.Parallel()
	w := newWitness(t, programCommand(t, "--selftest", "--state", "memory", "--metrics", ":0",
		"--log-format", "json"))
	var address []string
	for deadline := time.Now().Add(watchdog); address == nil; time.Sleep(10 * time.Millisecond) {
		if address = regexp.MustCompile(`"address":"(127\.0\.0\.1:[0-9]+)"`).
			FindStringSubmatch(w.log.String()); time.Now().After(deadline) {
			t.Fatalf("no address on loopback:\n%s", &w.log)
		}
	}
	sockets := func() int { // not all descriptors: it may still be starting, and open files
		directory := fmt.Sprintf("/proc/%d/fd", w.cmd.Process.Pid)
		entries, err := os.ReadDir(directory)
		if err != nil {
			t.Skip(err)
		}
		n := 0
		for _, entry := range entries {
			if target, err := os.Readlink(filepath.Join(directory, entry.Name())); err == nil &&
				strings.HasPrefix(target, "socket:") {
				n++
			}
		}
		return n
	}
	before := sockets()
	const maxScrapes = 16
	for range maxScrapes + 8 {
		c, err := net.Dial("tcp", address[1])
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	// It waits for its turn after them.
	if _, err := http.Get("http://" + address[1] + "/metrics"); err != nil {
		t.Fatal(err)
	}
	if n := sockets() - before; n > maxScrapes {
		t.Errorf("%d connections are open", n)
	}
	w.end()
	for line := range strings.Lines(w.log.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("no JSON: %s", line)
		}
	}
}
