package metrics

import (
	"fmt"
	"sync"
	"time"

	"runnel/rpc/mcp"
)

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
