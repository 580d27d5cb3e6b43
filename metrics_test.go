package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"runnel/rpc/mcp"
)

func TestMetrics(t *testing.T) {
	t.Parallel()
	w := newWitness(t, programCommand(t, append(writeConfig(t, `tasks: {maxLive: 1}`), "--selftest", "--metrics", ":0", "--log-format", "json")...))
	started := func(tool string, arguments map[string]any) answer {
		return w.call("tools/call", map[string]any{"name": tool, "task": map[string]any{}, "arguments": arguments})
	}
	var created mcp.CreateTaskResult
	if err := json.Unmarshal(started("echo", map[string]any{"text": "secret"}).Result, &created); err != nil {
		t.Fatal(err)
	}
	w.must(&mcp.CallToolResult{}, "tasks/result", map[string]any{"taskId": created.Task.TaskID})
	started("sleep", map[string]any{"ms": 600_000})
	if a := started("echo", map[string]any{"text": "x"}); a.Error == nil {
		t.Error("not refused")
	}
	address := regexp.MustCompile(`"address":"(127\.0\.0\.1:[0-9]+)"`).FindStringSubmatch(w.log.String())
	if address == nil {
		t.Fatalf("no address on loopback:\n%s", &w.log)
	}
	response, err := http.Get(fmt.Sprintf("http://%s/metrics", address[1]))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`runnel_tasks_created_total{tool="echo"} 1`,
		`runnel_tasks_ended_total{status="completed",tool="echo"} 1`,
		`runnel_task_duration_seconds_count{tool="echo"} 1`,
		`runnel_tasks_live 1`,
		`runnel_task_results_retrieved_total 1`,
		`runnel_refusals_total{limit="live"} 1`,
	} {
		if !strings.Contains(string(page), line+"\n") {
			t.Errorf("no %s in:\n%s", line, page)
		}
	}
	w.end()
	if strings.Contains(w.log.String(), "secret") {
		t.Errorf("content in the log:\n%s", &w.log)
	}
}

func TestMetricsAddress(t *testing.T) {
	for text, want := range map[string]string{":9090": "127.0.0.1:9090", "0.0.0.0:9090": "0.0.0.0:9090", "[::1]:1": "[::1]:1", "9090": "", "": ""} {
		if got, err := metricsAddress(text); got != want || (err != nil) != (want == "") {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}
