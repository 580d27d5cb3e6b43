package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"runnel/rpc/mcp"
)

// metrics counts what happens to tasks, for Prometheus. It is a tasks.Observer. It writes the text format itself
// (https://prometheus.io/docs/instrumenting/exposition_formats/): the client library took 1 ms of each start.
type metrics struct {
	mu     sync.Mutex
	values map[string]float64 // by name and labels, as they are written
	names  []string           // of values, in the order they came: a histogram's buckets ascend
}

// families are the metrics in the order they are written, each with its type and what it means.
var families = []struct{ name, kind, help string }{
	{"runnel_tasks_created_total", "counter", "Tasks that got a handle."},
	{"runnel_tasks_ended_total", "counter", "Tasks with a handle that ended, by status."},
	{"runnel_task_duration_seconds", "histogram", "From a task's creation to its end."},
	{"runnel_tasks_live", "gauge", "Tasks with a handle that this process runs."},
	{"runnel_task_results_retrieved_total", "counter", "Results of tasks that clients fetched."},
	{"runnel_refusals_total", "counter", "Tasks and requests about tasks that were refused, by limit."},
	{"go_goroutines", "gauge", "Goroutines of this process."},
	{"process_cpu_seconds_total", "counter", "Processor time of this process, user and system."},
	{"process_resident_memory_bytes", "gauge", "Memory of this process, where the system tells."},
	{"process_start_time_seconds", "gauge", "When this process began to serve, since 1970."},
}

func newMetrics() *metrics {
	m := &metrics{values: map[string]float64{}}
	m.add(0, "runnel_tasks_live")
	m.add(0, "runnel_task_results_retrieved_total")
	m.add(float64(time.Now().UnixMilli())/1000, "process_start_time_seconds")
	return m
}

// add adds to a value. labels are pairs of name and value.
func (m *metrics) add(amount float64, name string, labels ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name += labelled(labels)
	m.set(name, m.values[name]+amount)
}

// set sets a value. m.mu is held.
func (m *metrics) set(name string, v float64) {
	if _, known := m.values[name]; !known {
		m.names = append(m.names, name)
	}
	m.values[name] = v
}

func labelled(labels []string) string {
	if len(labels) == 0 {
		return ""
	}
	var pairs []string
	for pair := range slices.Chunk(labels, 2) {
		pairs = append(pairs, fmt.Sprintf(`%s="%s"`, pair[0], strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(pair[1])))
	}
	return "{" + strings.Join(pairs, ",") + "}"
}

func (m *metrics) Created(tool string) {
	m.add(1, "runnel_tasks_created_total", "tool", tool)
	m.add(1, "runnel_tasks_live")
}

// buckets are the histogram's upper bounds in seconds: 10 ms to 44 min.
var buckets = []float64{0.01, 0.04, 0.16, 0.64, 2.56, 10.24, 40.96, 163.84, 655.36, 2621.44}

func (m *metrics) Ended(tool string, status mcp.TaskStatus, took time.Duration) {
	const duration = "runnel_task_duration_seconds"
	m.add(1, "runnel_tasks_ended_total", "status", string(status), "tool", tool)
	m.add(-1, "runnel_tasks_live")
	for _, bound := range buckets {
		within := 0.0
		if took.Seconds() <= bound {
			within = 1
		}
		m.add(within, duration+"_bucket", "tool", tool, "le", number(bound))
	}
	m.add(1, duration+"_bucket", "tool", tool, "le", "+Inf")
	m.add(took.Seconds(), duration+"_sum", "tool", tool)
	m.add(1, duration+"_count", "tool", tool)
}

func (m *metrics) Retrieved() { m.add(1, "runnel_task_results_retrieved_total") }

func (m *metrics) Refused(limit string) { m.add(1, "runnel_refusals_total", "limit", limit) }

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// page is all values as they are now, in the text format.
func (m *metrics) page() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.set("go_goroutines", float64(runtime.NumGoroutine()))
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) == nil {
		m.set("process_cpu_seconds_total", time.Duration(used.Utime.Nano()+used.Stime.Nano()).Seconds())
	}
	if statm, err := os.ReadFile("/proc/self/statm"); err == nil {
		var size, resident int
		_, _ = fmt.Sscan(string(statm), &size, &resident) // 0 where the file says something else
		m.set("process_resident_memory_bytes", float64(resident*os.Getpagesize()))
	}
	var b strings.Builder
	for _, f := range families {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %[1]s %[3]s\n", f.name, f.help, f.kind)
		for _, name := range m.names {
			plain, _, _ := strings.Cut(name, "{")
			if plain == f.name || f.kind == "histogram" && strings.HasPrefix(plain, f.name+"_") {
				fmt.Fprintf(&b, "%s %s\n", name, number(m.values[name]))
			}
		}
	}
	return b.String()
}

// metricsAddress is where metrics are served: on loopback unless a host is named.
func metricsAddress(text string) (string, error) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return "", fmt.Errorf("%q is no address; allowed: :PORT (loopback) or HOST:PORT", text)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), nil
}

// serveMetrics serves /metrics until ctx ends. An address that is taken is no reason not to serve: a host
// may start the same server twice.
func serveMetrics(ctx context.Context, address string, m *metrics, log zerolog.Logger) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		log.Warn().Err(err).Msg("no metrics")
		return
	}
	context.AfterFunc(ctx, func() { _ = listener.Close() })
	log.Info().Str("address", listener.Addr().String()).Msg("serving metrics")
	go func() {
		for {
			c, err := listener.Accept()
			if err == nil {
				m.answer(c)
				continue
			}
			if ctx.Err() == nil {
				log.Error().Err(err).Msg("serving metrics")
			}
			select { // too many files are open, perhaps
			case <-ctx.Done():
				return
			case <-time.After(time.Second):
			}
		}
	}()
}

// answer answers one request, GET of /metrics, and closes the connection: as much of HTTP/1.1 (RFC 9112) as a scrape
// needs. net/http would be a fifth of the program, and a tenth of its start, for all those who never ask. One
// request is read at a time; one that is slow, or has a head that is too long, is given up.
func (m *metrics) answer(c net.Conn) {
	const patience, longest = 5 * time.Second, 16 << 10
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(patience)) // else the reads below say so
	head := textproto.NewReader(bufio.NewReader(io.LimitReader(c, longest)))
	request, err := head.ReadLine()
	if err != nil {
		return
	}
	if _, err := head.ReadMIMEHeader(); err != nil {
		return
	}
	status, body := "404 Not Found", "metrics are at /metrics\n"
	method, target, _ := strings.Cut(request, " ")
	target, version, _ := strings.Cut(target, " ")
	path, _, _ := strings.Cut(target, "?")
	switch {
	case !strings.HasPrefix(version, "HTTP/1."):
		status, body = "400 Bad Request", "use HTTP/1.1\n"
	case path != "/metrics":
	case method != "GET" && method != "HEAD":
		status, body = "405 Method Not Allowed\r\nAllow: GET, HEAD", "use GET\n"
	default:
		status, body = "200 OK", m.page()
	}
	answer := fmt.Sprintf("HTTP/1.1 %s\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n", status, len(body))
	if method != "HEAD" {
		answer += body
	}
	_, _ = io.WriteString(c, answer) // the scraper has gone
}
