package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"runnel/rpc/mcp"
)

// soakTasks is how many short tasks a soak runs; make soak runs 100,000.
func soakTasks(t *testing.T) int {
	n := 3000
	if text := os.Getenv("RUNNEL_TEST_SOAK_TASKS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// resources are what the process says that it holds.
type resources struct{ goroutines, files, resident, heap int64 }

var metricLine = regexp.MustCompile(`(?m)^(go_goroutines|process_open_fds|process_resident_memory_bytes|go_memstats_heap_inuse_bytes) (\S+)$`)

func resourcesOf(t *testing.T, address string) resources {
	t.Helper()
	// a connection that stays would be counted.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]int64{}
	for _, m := range metricLine.FindAllStringSubmatch(string(page), -1) {
		v, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			t.Fatal(err)
		}
		values[m[1]] = int64(v)
	}
	if len(values) != 4 {
		t.Fatalf("metrics: %v", values)
	}
	return resources{values["go_goroutines"], values["process_open_fds"],
		values["process_resident_memory_bytes"], values["go_memstats_heap_inuse_bytes"]}
}

// soakClients is how many requests there are at a time, and how many goroutines and files may stay to serve
// the next ones: fewer than there are tasks of each kind.
const soakClients = 32

// Many short tasks of all kinds, and one that streams all the time: memory and the state stay as large as
// they were, no goroutine and no file is left.
func TestSoak(t *testing.T) {
	t.Parallel()
	const (
		maxState = 32 << 20 // bytes: reached by a long soak
		// The log of SQLite that is not yet in the database may come on top, as large as one transaction
		// makes it.
		maxWAL = 64 << 20
		slack  = 16 << 20 // bytes by which memory may rise and fall
	)
	dir := filepath.Join(t.TempDir(), "state")
	address := freeAddress(t)
	w := newWitness(t, programCommand(t, append(writeConfig(t, `
tasks: {immediateWait: 1ms, maxLive: 1000}
state: {maxState: 32MiB}
tools:
  flood: {shell: 'while :; do head -c 4000 /dev/zero | tr "\0" x; echo; sleep 0.02; done', maxOutput: 4MiB}
  child: {command: [echo, "{{text}}"], input: {text: {type: string}}}
`), "--selftest", "--state", dir, "--fallback-tools", "always", "--metrics", address, "--log-level",
		"warn")...))
	created := func(a answer) string {
		var c mcp.CreateTaskResult
		if err := json.Unmarshal(a.Result, &c); err != nil || c.Task.TaskID == "" {
			t.Errorf("no task: %s %+v", a.Result, a.Error)
		}
		return c.Task.TaskID
	}
	start := func(tool string, arguments map[string]any, task map[string]any) string {
		return created(w.call("tools/call",
			map[string]any{"name": tool, "arguments": arguments, "task": task}))
	}
	flood := start("flood", map[string]any{}, map[string]any{"ttl": 24 * 3600_000})

	short := func(i int) {
		ttl := map[string]any{"ttl": 1000} // it expires while others go on
		if i%2 == 0 {
			ttl["ttl"] = 3600_000 // and these are evicted when the state is full
		}
		var id string
		text := fmt.Sprintf("task %d", i)
		switch i % 50 {
		case 0:
			id, text = start("child", map[string]any{"text": text}, ttl), text+"\n"
		case 1:
			id = start("sleep", map[string]any{"ms": 600_000}, map[string]any{})
			w.must(&mcp.Task{}, "tasks/cancel", map[string]any{"taskId": id})
			text = "The task was cancelled."
		case 2: // a plain call
			var result mcp.CallToolResult
			w.must(&result, "tools/call", map[string]any{"name": "child",
				"arguments": map[string]any{"text": text}})
			return
		case 3: // in the stateless era, with a subscription that the client takes back
			var task mcp.DetailedTask
			w.must(&task, "tools/call", json.RawMessage(inEra(takes, "",
				`"name":"stream","arguments":{"count":2,"intervalMs":20}`)))
			if task.TaskID == "" {
				return // it was done before the server has looked
			}
			listen, _ := w.send("subscriptions/listen",
				json.RawMessage(inEra(takes, "", `"notifications":{"taskIds":["`+task.TaskID+`"]}`)))
			w.must(&task, "tasks/get", json.RawMessage(inEra(takes, "", `"taskId":"`+task.TaskID+`"`)))
			w.notify("notifications/cancelled", map[string]any{"requestId": listen})
			return
		case 4: // streamed, SEP-1905
			ttl["responseModes"] = []string{"streaming"}
			a := w.call("tools/call", map[string]any{"name": "stream",
				"arguments": map[string]any{"count": 20, "bytes": 50}, "task": ttl})
			if a.Error != nil {
				t.Errorf("streaming: %+v", a.Error)
			}
			return
		case 5: // with a subscription of its log
			id, text = start("stream", map[string]any{"count": 3, "intervalMs": 10}, ttl), "streamed 3 chunks"
			uri := map[string]any{"uri": "runnel://tasks/" + id + "/log"}
			w.must(&struct{}{}, "resources/subscribe", uri)
			w.must(&struct{}{}, "resources/unsubscribe", uri)
		default:
			id = start("echo", map[string]any{"text": text}, ttl)
		}
		var result mcp.CallToolResult
		switch a := w.call("tasks/result", map[string]any{"taskId": id}); {
		case a.Error != nil && strings.Contains(a.Error.Message, "not found"):
			// The machine is so slow that it has expired.
		case a.Error != nil:
			t.Errorf("task %d: %+v", i, a.Error)
		case json.Unmarshal(a.Result, &result) != nil:
			t.Errorf("task %d: %s", i, a.Result)
		default:
			if got, _ := mcp.TextOf(result.Content[0]); got != text {
				t.Errorf("task %d: %q, want %q", i, got, text)
			}
		}
	}
	var next atomic.Int64
	run := func(until int) {
		var all sync.WaitGroup
		for range soakClients {
			all.Go(func() {
				for i := int(next.Add(1)); i <= until && !t.Failed(); i = int(next.Add(1)) {
					short(i)
				}
			})
		}
		all.Wait()
		next.Store(int64(until))
		if t.Failed() {
			t.FailNow()
		}
	}
	size := func() (bytes int64) {
		for _, name := range []string{"runnel.db", "runnel.db-wal", "runnel.db-shm"} {
			if info, err := os.Stat(filepath.Join(dir, name)); err == nil {
				bytes += info.Size()
			}
		}
		return bytes
	}

	n := soakTasks(t)
	const steps = 20
	began := time.Now()
	run(n / steps)
	first := settled(t, address, resources{})
	samples := []resources{first}
	largest := size()
	for step := 2; step <= steps; step++ {
		run(n / steps * step)
		samples = append(samples, resourcesOf(t, address))
		largest = max(largest, size())
		t.Logf("%d tasks in %v: %+v, state %.1f MiB", n/steps*step, time.Since(began).Round(time.Second),
			samples[len(samples)-1], mib(size()))
	}
	last := settled(t, address, first)
	var task mcp.Task
	w.must(&task, "tasks/get", map[string]any{"taskId": flood})
	if task.Status != mcp.TaskWorking {
		t.Errorf("the task that streams: %s, %s", task.Status, task.StatusMessage)
	}
	partials := w.partialsOf(flood)
	w.must(&task, "tasks/cancel", map[string]any{"taskId": flood})
	w.end()
	if complaints := w.log.String(); complaints != "" {
		t.Errorf("complaints:\n%s", complaints)
	}
	checkIntegrity(t, dir)

	half := len(samples) / 2
	median := func(list []resources) int64 {
		resident := []int64{}
		for _, u := range list {
			resident = append(resident, u.resident)
		}
		slices.Sort(resident)
		return resident[len(resident)/2]
	}
	early, late := median(samples[:half]), median(samples[half:])
	t.Logf("%d tasks in %v, %d partials of one that streamed; resident memory: %.1f MiB in the first half, %.1f in the second; heap %.1f, then %.1f MiB; goroutines %d, then %d; files %d, then %d; state at most %.1f MiB",
		n, time.Since(began).Round(time.Second), partials, mib(early), mib(late), mib(first.heap),
		mib(last.heap),
		first.goroutines, last.goroutines, first.files, last.files, mib(largest))
	if late > early+slack {
		t.Errorf("memory grows: %+v", samples)
	}
	if last.goroutines > first.goroutines+soakClients || last.files > first.files+soakClients {
		t.Errorf("at the beginning %+v, at the end %+v", first, last)
	}
	if largest > maxState+maxWAL {
		t.Errorf("the state took %.1f MiB", mib(largest))
	}
	if partials == 0 {
		t.Error("nothing of the task that streams has come")
	}
}

// settled is the usage when the process has nothing to do but the task that streams: when it is no more than
// a bound, or else when the watchdog barks. Without a bound it is what the process holds at least in some
// seconds.
func settled(t *testing.T, address string, most resources) resources {
	t.Helper()
	least := resourcesOf(t, address)
	wait := watchdog
	if most == (resources{}) {
		wait = 3 * time.Second
	}
	for deadline := time.Now().Add(wait); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		u := resourcesOf(t, address)
		least = resources{min(least.goroutines, u.goroutines), min(least.files, u.files),
			min(least.resident, u.resident), min(least.heap, u.heap)}
		if least.goroutines <= most.goroutines+soakClients && least.files <= most.files+soakClients {
			break
		}
	}
	return least
}

// freeAddress is one on loopback that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }
