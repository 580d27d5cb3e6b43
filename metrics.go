package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/rs/zerolog"

	"runnel/rpc/mcp"
)

// metrics counts what happens to tasks, for Prometheus. It is a tasks.Observer.
type metrics struct {
	registry  *prometheus.Registry
	created   *prometheus.CounterVec
	ended     *prometheus.CounterVec
	seconds   *prometheus.HistogramVec
	live      prometheus.Gauge
	retrieved prometheus.Counter
	refused   *prometheus.CounterVec
}

func newMetrics() *metrics {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	f := promauto.With(registry)
	return &metrics{
		registry: registry,
		created:  f.NewCounterVec(prometheus.CounterOpts{Name: "runnel_tasks_created_total", Help: "Tasks that got a handle."}, []string{"tool"}),
		ended:    f.NewCounterVec(prometheus.CounterOpts{Name: "runnel_tasks_ended_total", Help: "Tasks with a handle that ended, by status."}, []string{"tool", "status"}),
		seconds: f.NewHistogramVec(prometheus.HistogramOpts{Name: "runnel_task_duration_seconds", Help: "From a task's creation to its end.",
			Buckets: prometheus.ExponentialBuckets(0.01, 4, 10)}, []string{"tool"}), // 10 ms to 44 min
		live:      f.NewGauge(prometheus.GaugeOpts{Name: "runnel_tasks_live", Help: "Tasks with a handle that this process runs."}),
		retrieved: f.NewCounter(prometheus.CounterOpts{Name: "runnel_task_results_retrieved_total", Help: "Results of tasks that clients fetched."}),
		refused:   f.NewCounterVec(prometheus.CounterOpts{Name: "runnel_refusals_total", Help: "Tasks and requests about tasks that were refused, by limit."}, []string{"limit"}),
	}
}

func (m *metrics) Created(tool string) {
	m.created.WithLabelValues(tool).Inc()
	m.live.Inc()
}

func (m *metrics) Ended(tool string, status mcp.TaskStatus, took time.Duration) {
	m.ended.WithLabelValues(tool, string(status)).Inc()
	m.seconds.WithLabelValues(tool).Observe(took.Seconds())
	m.live.Dec()
}

func (m *metrics) Retrieved() { m.retrieved.Inc() }

func (m *metrics) Refused(limit string) { m.refused.WithLabelValues(limit).Inc() }

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
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second} // a scrape is one small request
	context.AfterFunc(ctx, func() { _ = server.Close() })
	log.Info().Str("address", listener.Addr().String()).Msg("serving metrics")
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error().Err(err).Msg("serving metrics")
		}
	}()
}
