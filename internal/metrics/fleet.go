package metrics

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	prometheus "github.com/VictoriaMetrics/metrics"
	"github.com/rs/zerolog"

	"runnel/tasks"
)

// scrapeWait is how long a scrape waits for the state's answer: the page must be written within 5 s.
const scrapeWait = 2 * time.Second

// WatchFleet shows the workers of owners, and how many of their tasks wait for one. It asks the state at each
// scrape.
func (m *Metrics) WatchFleet(queues tasks.Queues, owners func() []string, log zerolog.Logger) {
	m.set.RegisterMetricsWriter(func(w io.Writer) {
		ctx, cancel := context.WithTimeout(context.Background(), scrapeWait)
		defer cancel()
		now := prometheus.NewSet()
		for _, owner := range owners() {
			up := now.GetOrCreateGauge(fmt.Sprintf("runnel_fleet_up{owner=%q}", owner), nil)
			queue := queues.Open(owner).(tasks.Queue)
			workers, waiting, err := queue.Fleet(ctx)
			if err == nil {
				err = queue.Lapsed()
			}
			if err != nil {
				log.Warn().Err(err).Str("owner", owner).Msg("a scrape of the metrics found no workers")
				continue
			}
			up.Inc()
			add := func(class string, workers, slots, running, waiting int) {
				for name, n := range map[string]int{"workers": workers, "slots": slots, "running": running,
					"waiting": waiting} {
					now.GetOrCreateGauge(fmt.Sprintf("runnel_fleet_%s{owner=%q,class=%q}", name, owner,
						class), nil).Add(float64(n))
				}
			}
			paused := map[string]float64{}
			for _, worker := range workers {
				for _, class := range worker.Classes {
					slots := worker.Slots
					paused[class] += 0
					if slices.Contains(worker.Paused, class) {
						slots, paused[class] = 0, 1
					}
					add(class, 1, slots, len(worker.Running), 0)
				}
			}
			set := func(name string, value float64) { now.GetOrCreateGauge(name, nil).Set(value) }
			for class, waits := range waiting {
				add(class, 0, 0, 0, waits.Tasks)
				since := max(time.Since(waits.Since).Seconds(), 0) // another machine's clock may be ahead
				set(fmt.Sprintf("runnel_fleet_oldest_seconds{owner=%q,class=%q}", owner, class), since)
			}
			orders, _ := queue.Orders(ctx) // workers say what they obey, too
			for _, o := range orders {
				if o.What == tasks.OrderPause {
					paused[o.Name] = 1
				}
			}
			for class, is := range paused {
				set(fmt.Sprintf("runnel_fleet_paused{owner=%q,class=%q}", owner, class), is)
			}
			if stored, err := queue.Stored(ctx); err == nil {
				set(fmt.Sprintf("runnel_state_bytes{owner=%q}", owner), float64(stored.Bytes))
				set(fmt.Sprintf("runnel_state_max_bytes{owner=%q}", owner), float64(stored.Limit))
				set(fmt.Sprintf("runnel_state_replicas{owner=%q}", owner), float64(stored.Replicas))
				set(fmt.Sprintf("runnel_state_replicas_current{owner=%q}", owner), float64(stored.Current))
			}
		}
		now.WritePrometheus(w)
	})
}

// WatchWorker shows how many slots a worker has.
func (m *Metrics) WatchWorker(slots func() int) {
	m.set.NewGauge("runnel_worker_slots", func() float64 { return float64(slots()) })
}

// Taken counts a task that a worker has taken, and how long the task had waited.
func (m *Metrics) Taken(class, tool string, attempt int, waited time.Duration) {
	m.live.Inc()
	m.count("runnel_worker_taken_total{class=%q,tool=%q,attempt=\"%d\"}", class, tool, attempt)
	// Measured with two clocks: the offering process's and this one's.
	m.observe("runnel_worker_wait_seconds", fmt.Sprintf("class=%q", class), max(waited, 0))
}

// Left counts a task that a worker had taken, and hands back before it has begun.
func (m *Metrics) Left(class string) {
	m.live.Dec()
	m.HandedBack(class, "leaving")
}

// HandedBack counts an offer that a worker has left to others.
func (m *Metrics) HandedBack(class, why string) {
	m.count("runnel_worker_handed_back_total{class=%q,why=%q}", class, why)
}
