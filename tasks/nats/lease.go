package nats

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"runnel/tasks"
)

const (
	// leaseTTL is how long a process counts as alive that nothing is heard of: longer than the servers need to elect a leader.
	leaseTTL      = 15 * time.Second
	renewInterval = 4 * time.Second
	// sweepInterval is how often tasks are looked for whose keeper is gone.
	sweepInterval = 5 * time.Second
)

// keepAlive takes the lease, and starts the goroutines that renew it and that look for what dead processes have left. They are two: to end
// what is left may take longer than the lease holds.
func (sp *space) keepAlive(ctx context.Context) (err error) {
	if err := sp.renew(ctx); err != nil {
		return err
	}
	if sp.asked, err = sp.s.nc.Subscribe(sp.asks+sp.s.keeper, sp.hear); err != nil {
		return err
	}
	sp.ctx, sp.stop = context.WithCancel(context.Background())
	sp.all.Go(func() { sp.every(renewInterval, sp.renew, "keeping the lease of this runnel") })
	sp.all.Go(func() { sp.every(sweepInterval, sp.sweep, "looking for tasks of runnels that are gone") })
	return nil
}

// every calls do until Close.
func (sp *space) every(interval time.Duration, do func(context.Context) error, what string) {
	next := time.NewTicker(interval)
	defer next.Stop()
	for {
		select {
		case <-next.C:
		case <-sp.ctx.Done():
			return
		}
		if err := do(sp.ctx); err != nil && sp.ctx.Err() == nil {
			sp.s.o.Log.Warn().Err(err).Msg(what)
		}
	}
}

// renew says that this process lives. If that could not be said for longer than others believe it, they may have ended its tasks.
func (sp *space) renew(ctx context.Context) error {
	m := &nats.Msg{Subject: sp.lease(sp.s.keeper), Header: rollup}
	if _, err := sp.publish(ctx, m, jetstream.WithMsgTTL(leaseTTL)); err != nil {
		return err
	}
	now := time.Now().Round(0) // the wall clock: the machine may have slept
	sp.mu.Lock()
	before := sp.renewed
	sp.mu.Unlock()
	if !before.IsZero() && now.Sub(before) > leaseTTL-renewInterval {
		if err := sp.findFenced(ctx); err != nil {
			return err
		}
	}
	sp.mu.Lock()
	sp.renewed = now
	sp.mu.Unlock()
	return nil
}

// findFenced looks which tasks of this process others have ended.
func (sp *space) findFenced(ctx context.Context) error {
	sp.mu.Lock()
	mine := slices.Collect(maps.Keys(sp.live))
	sp.mu.Unlock()
	for _, id := range mine {
		r, err := sp.record(ctx, id)
		switch {
		case err != nil && !errors.Is(err, tasks.ErrNotFound):
			return err
		case err != nil || r.Writer != sp.s.keeper:
			sp.mu.Lock()
			if sp.live[id] != nil { // else it has ended meanwhile
				sp.fenced[id] = struct{}{}
			}
			sp.mu.Unlock()
			sp.s.notice()
		}
	}
	return nil
}

// sweep ends the tasks of processes that are gone. Several processes may do it at once: the record's revision lets one of them.
func (sp *space) sweep(ctx context.Context) error {
	sp.undo(ctx)
	var marks []string // before the leases: who has left a mark since has one
	for _, mark := range []string{"live.*", "hidden.*"} {
		some, err := sp.subjects(ctx, sp.name, sp.subject("*", mark))
		if err != nil {
			return err
		}
		marks = append(marks, some...)
	}
	leases, err := sp.subjects(ctx, sp.leaseName, sp.lease("*"))
	if err != nil {
		return err
	}
	alive := map[string]bool{sp.s.keeper: true}
	for _, subject := range leases {
		alive[strings.TrimPrefix(subject, sp.alive)] = true
	}
	missed := map[string]time.Time{}
	var waits []string
	strays := map[string]string{} // tasks of this process that it does not run, and their marks
	for _, subject := range marks {
		parts := strings.Split(strings.TrimPrefix(subject, sp.root), ".") // ID.live.KEEPER
		if len(parts) == 3 && parts[2] == sp.s.keeper && !sp.runs(parts[0]) {
			strays[parts[0]] = parts[1]
		}
		if len(parts) != 3 || alive[parts[2]] {
			continue
		}
		id, keeper := parts[0], parts[2]
		if keeper == queueKeeper {
			waits = append(waits, id)
			continue
		}
		if missed[keeper] = sp.since(keeper); time.Since(missed[keeper]) < renewInterval {
			continue
		}
		if failed := sp.recover(ctx, id, keeper); failed != nil {
			err = failed // the others are ended all the same
			if errors.Is(err, tasks.ErrBusy) {
				break
			}
			continue
		}
		sp.unmark(ctx, id, parts[1]+"."+keeper)
	}
	sp.mu.Lock()
	before := sp.strays
	sp.missed, sp.strays = missed, strays
	sp.mu.Unlock()
	for id, mark := range strays {
		if before[id] != "" && !sp.runs(id) { // else it is being taken just now
			if failed := sp.recover(ctx, id, sp.s.keeper); failed != nil {
				err = failed
				continue
			}
			sp.unmark(ctx, id, mark+"."+sp.s.keeper)
		}
	}
	return cmp.Or(sp.tend(ctx, waits), err)
}

// runs reports whether this process runs a task. One that it has taken, or made, without having been told so, it does not.
func (sp *space) runs(id string) bool {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	return sp.live[id] != nil
}

// since returns when this process has first found another one without a lease. Then the other one has time to renew it: while the servers
// were away all leases ran out, and not their processes' lives.
func (sp *space) since(keeper string) time.Time {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if first, ok := sp.missed[keeper]; ok {
		return first
	}
	return time.Now()
}

// undo deletes what may be stored of tasks that were refused: nobody has their handles.
func (sp *space) undo(ctx context.Context) {
	sp.mu.Lock()
	doubtful := slices.Collect(maps.Keys(sp.doubtful))
	sp.mu.Unlock()
	for _, id := range doubtful {
		if err := sp.stream.Purge(ctx, jetstream.WithPurgeSubject(sp.subject(id, ">"))); err != nil {
			return // the next sweep tries again
		}
		sp.mu.Lock()
		delete(sp.doubtful, id)
		sp.mu.Unlock()
	}
}

// recover ends a task whose keeper is gone: it has failed, with what it had written. That of a worker may wait for another one instead.
func (sp *space) recover(ctx context.Context, id, keeper string) error {
	r, err := sp.record(ctx, id)
	if errors.Is(err, tasks.ErrNotFound) || err == nil && (r.terminal() || r.Keeper != keeper) {
		return nil
	} else if err != nil {
		return err
	}
	if r.Hidden {
		return sp.stream.Purge(ctx, jetstream.WithPurgeSubject(sp.subject(id, ">")))
	}
	if r.Offer != nil && r.Offer.Retries > 0 {
		return sp.requeue(ctx, r)
	}
	if err := sp.conclude(ctx, r, func(t *tasks.Task) { t.FailOrphan(ctx) }); err != nil {
		return err
	}
	sp.s.o.Log.Info().Str("taskId", id).Str("owner", sp.owner).Str("tool", r.Task.Tool).Msg("task recovered: its runnel is gone")
	return nil
}
