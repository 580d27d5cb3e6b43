package metrics

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"runnel/rpc/mcp"
)

// A label may hold anything; a histogram's buckets count what is below them.
func TestMetricsPage(t *testing.T) {
	t.Parallel()
	m := New()
	m.Created("a\"b")
	m.Ended("a\"b", mcp.TaskCompleted, 50*time.Millisecond)
	m.WatchHTTP(func() (sessions, streams int) { return 3, 2 })
	answer := httptest.NewRecorder()
	m.ServeHTTP(answer, nil)
	page := answer.Body.String()
	for _, want := range []string{
		"# TYPE runnel_tasks_created_total counter\n",
		`runnel_task_duration_seconds_bucket{tool="a\"b",le="0.04"} 0` + "\n",
		`runnel_task_duration_seconds_bucket{tool="a\"b",le="0.08"} 1` + "\n",
		`runnel_task_duration_seconds_bucket{tool="a\"b",le="2621.44"} 1` + "\n",
		`runnel_task_duration_seconds_bucket{tool="a\"b",le="+Inf"} 1` + "\n",
		`runnel_task_duration_seconds_sum{tool="a\"b"} 0.05` + "\n",
		"runnel_http_sessions 3\n", "runnel_http_streams 2\n",
		"runnel_tasks_live 0\n", "runnel_task_results_retrieved_total 0\n", "go_goroutines ",
		"process_resident_memory_bytes ",
		"process_cpu_seconds_total ", "process_start_time_seconds ",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s in:\n%s", want, page)
		}
	}
}

// A page of another site whose name stands for this machine (DNS rebinding) does not read the metrics.
func TestMetricsAreGuarded(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	New().Serve(t.Context(), "127.0.0.1:0", nil, zerolog.New(&log))
	address := regexp.MustCompile(`127\.0\.0\.1:[0-9]+`).FindString(log.String())
	for range 2 {
		for _, c := range []struct {
			host, origin string
			status       int
		}{
			{address, "", http.StatusOK}, {"localhost:1234", "", http.StatusOK},
			{address, "http://localhost:3000", http.StatusOK},
			{"evil.example:80", "", http.StatusForbidden},
			{address, "https://evil.example", http.StatusForbidden},
		} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
				"http://"+address+"/metrics", nil)
			if err != nil {
				t.Fatal(err)
			}
			if request.Host = c.host; c.origin != "" {
				request.Header.Set("Origin", c.origin)
			}
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			if response.StatusCode != c.status {
				t.Errorf("host %q, origin %q: %s", c.host, c.origin, response.Status)
			}
		}
	}
}

// An owner's tasks count for all and for the owner, and many owners do not make as many series. What a worker has
// taken is not counted as a call: the runnel that made it counts it.
func TestOwnersAndWorkers(t *testing.T) {
	t.Parallel()
	m := New()
	for range 2 {
		for n := range mostOwners + 5 {
			of := m.Of(fmt.Sprint("owner ", n))
			of.Created("build")
			of.Ended("build", mcp.TaskFailed, 3*time.Second)
		}
		m.Taken("builds", "build", 1, time.Second)
		m.OfWorker().Ended("build", mcp.TaskCompleted, time.Second)
	}
	answer := httptest.NewRecorder()
	m.ServeHTTP(answer, nil)
	page := answer.Body.String()
	for _, want := range []string{
		`runnel_owner_tasks_created_total{owner="owner 7"} 2`,
		`runnel_owner_tasks_created_total{owner="other"} 10`,
		`runnel_owner_tasks_ended_total{owner="owner 7",status="failed"} 2`,
		`runnel_owner_task_seconds_total{owner="owner 7"} 6`,
		fmt.Sprintf(`runnel_tasks_ended_total{status="failed",tool="build"} %d`, 2*(mostOwners+5)),
		`runnel_worker_ended_total{status="completed",tool="build"} 2`,
		`runnel_worker_duration_seconds_count{tool="build"} 2`, "runnel_tasks_live 0",
	} {
		if !strings.Contains(page, want+"\n") {
			t.Errorf("no %s in:\n%s", want, page)
		}
	}
	if n := strings.Count(page, "runnel_owner_tasks_created_total{"); n != mostOwners+1 {
		t.Errorf("%d owners have series", n)
	}
	if strings.Contains(page, `runnel_tasks_ended_total{status="completed"`) {
		t.Errorf("what a worker has run counts as a call:\n%s", page)
	}
}
