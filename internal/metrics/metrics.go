// Package metrics has what monitoring asks a server or a worker for: counters for Prometheus, and the page
// that shows them.
package metrics

import (
	"context"
	"errors"
	"fmt"
	stdlog "log"
	"net"
	"net/http"
	"sync"
	"time"

	prometheus "github.com/VictoriaMetrics/metrics" // client_golang takes 1.5 ms of each start, this 0.1 ms
	"github.com/rs/zerolog"
	"golang.org/x/net/netutil"

	httpserver "runnel/rpc/http"
	"runnel/rpc/mcp"
	"runnel/tasks/run"
)

// Metrics are counters for Prometheus. It is a run.Observer.
type Metrics struct {
	set       *prometheus.Set
	live      *prometheus.Gauge
	retrieved *prometheus.Counter
	owners    owners
}

// New makes metrics that count nothing yet.
func New() *Metrics {
	prometheus.ExposeMetadata(true)
	set := prometheus.NewSet()
	return &Metrics{
		set:       set,
		live:      set.NewGauge("runnel_tasks_live", nil),
		retrieved: set.NewCounter("runnel_task_results_retrieved_total"),
	}
}

// Created counts a task that was started.
func (m *Metrics) Created(tool string) {
	m.count("runnel_tasks_created_total{tool=%q}", tool)
	m.live.Inc()
}

func (m *Metrics) count(format string, labels ...any) {
	m.set.GetOrCreateCounter(fmt.Sprintf(format, labels...)).Inc()
}

// buckets are upper bounds in seconds, 10 ms to 44 min. Each is twice the one before: a quantile that
// Prometheus takes between two of them is then at most twice the true one, and mostly much nearer.
var buckets = func() (bounds []float64) {
	for bound := 0.01; bound < 2700; bound *= 2 {
		bounds = append(bounds, bound)
	}
	return bounds
}()

// Ended counts a task by its status, and how long it took.
func (m *Metrics) Ended(tool string, status mcp.TaskStatus, took time.Duration) {
	m.count("runnel_tasks_ended_total{status=%q,tool=%q}", string(status), tool)
	m.live.Dec()
	m.observe("runnel_task_duration_seconds", fmt.Sprintf("tool=%q", tool), took)
}

// observe counts a duration in a histogram of Prometheus's kind: those of the library have other buckets.
func (m *Metrics) observe(name, label string, took time.Duration) {
	for _, bound := range buckets {
		within := 0 // a bucket exists from the first duration on
		if took.Seconds() <= bound {
			within = 1
		}
		m.set.GetOrCreateCounter(fmt.Sprintf("%s_bucket{%s,le=\"%g\"}", name, label, bound)).Add(within)
	}
	m.count("%s_bucket{%s,le=\"+Inf\"}", name, label)
	m.count("%s_count{%s}", name, label)
	m.set.GetOrCreateFloatCounter(fmt.Sprintf("%s_sum{%s}", name, label)).Add(took.Seconds())
}

// Retrieved counts a result that was fetched.
func (m *Metrics) Retrieved() { m.retrieved.Inc() }

// Used counts what the requests of a tool to a language model have taken.
func (m *Metrics) Used(tool string, u run.Usage) {
	labels := fmt.Sprintf("model=%q,tool=%q", u.Model, tool)
	add := func(name string, n int) { m.set.GetOrCreateCounter(name).Add(n) }
	add(fmt.Sprintf("runnel_model_requests_total{%s}", labels), u.Requests)
	add(fmt.Sprintf("runnel_model_tokens_total{kind=\"input\",%s}", labels), u.InputTokens-u.CachedTokens)
	add(fmt.Sprintf("runnel_model_tokens_total{kind=\"cached\",%s}", labels), u.CachedTokens)
	add(fmt.Sprintf("runnel_model_tokens_total{kind=\"output\",%s}", labels), u.OutputTokens)
	m.set.GetOrCreateFloatCounter(fmt.Sprintf("runnel_model_usd_total{%s}", labels)).Add(u.USD)
}

// Refused counts a task that a limit has refused.
func (m *Metrics) Refused(limit string) { m.count("runnel_refusals_total{limit=%q}", limit) }

// Answered counts a request over HTTP.
func (m *Metrics) Answered(method string, status int) {
	switch method {
	case http.MethodGet, http.MethodPost, http.MethodDelete, http.MethodOptions:
	default:
		method = "other" // a client must not make up series
	}
	m.count("runnel_http_requests_total{method=%q,status=\"%d\"}", method, status)
}

// WatchHTTP shows how many sessions and streams are open over HTTP.
func (m *Metrics) WatchHTTP(open func() (sessions, streams int)) {
	m.set.NewGauge("runnel_http_sessions", func() float64 { n, _ := open(); return float64(n) })
	m.set.NewGauge("runnel_http_streams", func() float64 { _, n := open(); return float64(n) })
}

// ServeHTTP answers a scrape.
func (m *Metrics) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	m.set.WritePrometheus(w)
	prometheus.WriteProcessMetrics(w)
	prometheus.WriteFDMetrics(w)
}

// Serve serves /metrics, /healthz and /readyz, which ready answers, until ctx ends. If the address is taken,
// runnel serves without them: a host may start the same server twice.
func (m *Metrics) Serve(ctx context.Context, address string, ready func(context.Context) error,
	log zerolog.Logger) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		log.Warn().Err(err).Msg("metrics are not served")
		return
	}
	mux := http.NewServeMux()
	guarded := func(handler http.Handler) http.Handler { return httpserver.Guarded(listener.Addr(), handler) }
	mux.Handle("GET /metrics", guarded(m))
	httpserver.HandleHealth(mux, guarded, ready)
	const patience = 5 * time.Second // a scrape is one small request and a page
	server := &http.Server{
		Handler: mux, ReadTimeout: patience, WriteTimeout: patience, MaxHeaderBytes: 16 << 10,
		ErrorLog: stdlog.New(log.With().Str(zerolog.LevelFieldName, "warn").Logger(), "serving metrics: ", 0),
	}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	log.Info().Str("address", listener.Addr().String()).Msg("serving metrics")
	go func() {
		if err := server.Serve(netutil.LimitListener(listener, maxScrapes)); !errors.Is(err,
			http.ErrServerClosed) {
			log.Error().Err(err).Msg("serving metrics")
		}
	}()
}

// maxScrapes is how many connections are served at once: each takes a descriptor, which tasks need for their
// commands. A silent connection is closed after patience; further ones wait in the kernel.
const maxScrapes = 16

// mostOwners is how many owners have series of their own. Further ones count together as "other".
const mostOwners = 100

// owners are those that have series.
type owners struct {
	mu    sync.Mutex
	known map[string]bool
}

// label returns what stands for an owner in labels.
func (o *owners) label(owner string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.known == nil {
		o.known = map[string]bool{}
	}
	if !o.known[owner] && len(o.known) == mostOwners {
		return "other"
	}
	o.known[owner] = true
	return owner
}

// ofOwner counts the tasks of one owner, in addition to those of all. It is a run.Observer.
type ofOwner struct {
	*Metrics
	owner string
}

// Of returns a run.Observer that counts an owner's tasks.
func (m *Metrics) Of(owner string) ofOwner { return ofOwner{m, m.owners.label(owner)} }

// Created counts a task that was started.
func (o ofOwner) Created(tool string) {
	o.Metrics.Created(tool)
	o.count("runnel_owner_tasks_created_total{owner=%q}", o.owner)
}

// Ended counts a task by its status, and how long it took.
func (o ofOwner) Ended(tool string, status mcp.TaskStatus, took time.Duration) {
	o.Metrics.Ended(tool, status, took)
	o.count("runnel_owner_tasks_ended_total{owner=%q,status=%q}", o.owner, string(status))
	o.set.GetOrCreateFloatCounter(fmt.Sprintf("runnel_owner_task_seconds_total{owner=%q}", o.owner)).
		Add(took.Seconds())
}

// ofWorker counts what a worker has taken apart from what is called: the runnel that made the call counts its
// end, too. It is a run.Observer.
type ofWorker struct{ *Metrics }

// OfWorker returns a run.Observer of the tasks that a worker has taken.
func (m *Metrics) OfWorker() ofWorker { return ofWorker{m} }

// Ended counts a task by its status, and how long it took.
func (w ofWorker) Ended(tool string, status mcp.TaskStatus, took time.Duration) {
	w.count("runnel_worker_ended_total{status=%q,tool=%q}", string(status), tool)
	w.live.Dec()
	w.observe("runnel_worker_duration_seconds", fmt.Sprintf("tool=%q", tool), took)
}
