package serve

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"runnel/rpc/mcp"
)

// A label may hold anything; a histogram's buckets count what is below them.
func TestMetricsPage(t *testing.T) {
	t.Parallel()
	m := newMetrics()
	m.Created("a\"b")
	m.Ended("a\"b", mcp.TaskCompleted, 50*time.Millisecond)
	m.watch(func() (sessions, streams int) { return 3, 2 })
	answer := httptest.NewRecorder()
	m.ServeHTTP(answer, nil)
	page := answer.Body.String()
	for _, want := range []string{
		"# TYPE runnel_tasks_created_total counter\n",
		`runnel_task_duration_seconds_bucket{tool="a\"b",le="0.04"} 0` + "\n",
		`runnel_task_duration_seconds_bucket{tool="a\"b",le="0.16"} 1` + "\n",
		`runnel_task_duration_seconds_bucket{tool="a\"b",le="+Inf"} 1` + "\n",
		`runnel_task_duration_seconds_sum{tool="a\"b"} 0.05` + "\n",
		"runnel_http_sessions 3\n", "runnel_http_streams 2\n",
		"runnel_tasks_live 0\n", "runnel_task_results_retrieved_total 0\n", "go_goroutines ", "process_resident_memory_bytes ",
		"process_cpu_seconds_total ", "process_start_time_seconds ",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s in:\n%s", want, page)
		}
	}
}
