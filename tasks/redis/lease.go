package redis

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"runnel/partials"
	"runnel/tasks"
)

const (
	// leaseTTL is how long a process counts as alive that nothing is heard of: longer than a server needs to start or to be replaced.
	leaseTTL      = 15 * time.Second
	renewInterval = 4 * time.Second
	// sweepInterval is how often tasks are looked for whose keeper is gone.
	sweepInterval = 5 * time.Second
)

// keepAlive takes the lease, and starts the goroutines that renew it and that look for what dead processes have left. They are two: to end
// what is left may take longer than the lease holds.
func (sp *space) keepAlive(ctx context.Context) error {
	if err := sp.renew(ctx); err != nil {
		return err
	}
	sp.ctx, sp.stop = context.WithCancel(context.Background())
	sp.all.Go(func() { sp.every(renewInterval, sp.renew, "keeping the lease of this runnel") })
	sp.all.Go(func() { sp.every(sweepInterval, sp.sweep, "looking for tasks of runnels that are gone") })
	sp.all.Go(sp.listen)
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
	if _, err := sp.call(ctx, "lease", "", leaseTTL); err != nil {
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
	keepers := sp.each(ctx, mine, func(b rueidis.Builder, id string) rueidis.Completed {
		return b.Hget().Key(sp.root + "task:" + id).Field("keeper").Build()
	})
	for i, id := range mine {
		keeper, err := keepers[i].ToString()
		if err != nil && !rueidis.IsRedisNil(err) {
			return err
		}
		if keeper != sp.s.keeper {
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

// sweep ends the tasks of processes that are gone, and forgets what has expired. Several processes may do it at once: the scripts let one of them.
func (sp *space) sweep(ctx context.Context) error {
	sp.mu.Lock()
	before := sp.missed
	sp.missed = nil // if this look fails, the next one begins anew: the server may have been away
	sp.mu.Unlock()
	for swept := ""; swept != "0"; {
		var err error
		if swept, err = sp.call(ctx, "sweep", "", 0); err != nil {
			return err
		}
	}
	if err := sp.undo(ctx); err != nil {
		return err
	}
	marks := map[string]string{} // before the leases: who has left a mark since has one
	for _, key := range []string{"live", "hidden"} {
		answer, err := sp.read(ctx, func(b rueidis.Builder) rueidis.Completed { return b.Hgetall().Key(sp.root + key).Build() })
		if err != nil {
			return err
		}
		some, err := answer.AsStrMap()
		if err != nil {
			return err
		}
		maps.Copy(marks, some)
	}
	alive, err := sp.alive(ctx)
	if err != nil {
		return err
	}
	alive = append(alive, sp.s.keeper)
	missed := map[string]time.Time{}
	for id, keeper := range marks {
		if slices.Contains(alive, keeper) {
			continue
		}
		// It has time to renew its lease: while the server was away all leases ran out, and not their processes' lives.
		if first, ok := before[keeper]; ok {
			missed[keeper] = first
		} else if missed[keeper].IsZero() {
			missed[keeper] = time.Now()
		}
		if time.Since(missed[keeper]) < renewInterval {
			continue
		}
		if failed := sp.recover(ctx, id, keeper); errors.Is(failed, tasks.ErrBusy) {
			return failed
		} else if failed != nil {
			err = failed // the others are ended all the same
		}
	}
	sp.mu.Lock()
	sp.missed = missed
	sp.mu.Unlock()
	return err
}

// alive are the processes that have a lease.
func (sp *space) alive(ctx context.Context) ([]string, error) {
	answer, err := sp.read(ctx, func(b rueidis.Builder) rueidis.Completed { return b.Time().Build() })
	if err != nil {
		return nil, err
	}
	now, err := answer.AsStrSlice() // seconds and microseconds, by the server's clock as leases are
	if err != nil {
		return nil, err
	}
	answer, err = sp.read(ctx, func(b rueidis.Builder) rueidis.Completed {
		return b.Zrangebyscore().Key(sp.root + "alive").Min("(" + now[0] + "000").Max("+inf").Build()
	})
	if err != nil {
		return nil, err
	}
	return answer.AsStrSlice()
}

// undo deletes what may be stored of tasks that were refused: nobody has their handles.
func (sp *space) undo(ctx context.Context) error {
	sp.mu.Lock()
	doubtful := slices.Collect(maps.Keys(sp.doubtful))
	sp.mu.Unlock()
	for _, id := range doubtful {
		if _, err := sp.call(ctx, "delete", id, 0, ""); err != nil {
			return err // the next sweep tries again
		}
		sp.mu.Lock()
		delete(sp.doubtful, id)
		sp.mu.Unlock()
	}
	return nil
}

// recover ends a task whose keeper is gone: it has failed, with what it had written.
func (sp *space) recover(ctx context.Context, id, keeper string) error {
	found, err := sp.records(ctx, []string{id})
	if err != nil {
		return err
	}
	r := found[0]
	if r == nil || r.hidden { // nobody finds it, or what is left is a mark
		_, err := sp.call(ctx, "delete", id, 0, keeper)
		return err
	}
	if r.keeper != keeper && r.damage == nil {
		return nil
	}
	r.Log = sp.log(r)
	if r.damage == nil {
		r.FailOrphan(ctx)
	} else {
		r.Segments = partials.RestoreSegments(r.Log, nil, r.ending)
	}
	r.UpdatedAt = sp.s.o.Now()
	s := r.stored
	s.put(&r.Task)
	switch err := sp.finish(ctx, &r.Task, s, keeper); {
	case errors.Is(err, tasks.ErrFenced): // somebody else was quicker
		return nil
	case err != nil && r.damage != nil && !errors.Is(err, tasks.ErrBusy): // not even a hash
		_, err := sp.call(ctx, "delete", id, 0, "")
		return err
	case err != nil:
		return err
	}
	sp.s.o.Log.Info().Str("taskId", id).Str("owner", sp.owner).Str("tool", r.Task.Tool).Msg("task recovered: its runnel is gone")
	return nil
}

// listen hears what others ask, until Close. Heed looks by itself, too: what is said while the connection is lost is not heard.
func (sp *space) listen() {
	c := sp.s.client
	for sp.ctx.Err() == nil {
		_ = c.Receive(sp.ctx, c.B().Subscribe().Channel(sp.root+"ask:"+sp.s.keeper).Build(), func(rueidis.PubSubMessage) { sp.s.notice() })
		select {
		case <-time.After(time.Second):
		case <-sp.ctx.Done():
		}
	}
}
