package nats

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"runnel/partials"
	"runnel/tasks"
)

const (
	// leaseTTL is how long a process counts as alive that nothing is heard of: longer than the servers need to elect a leader.
	leaseTTL      = 15 * time.Second
	renewInterval = 4 * time.Second
	// sweepInterval is how often tasks are looked for whose keeper is gone.
	sweepInterval = 5 * time.Second
)

// keepAlive takes the lease, ends what dead processes have left, and starts the goroutine that goes on with both.
func (sp *space) keepAlive(ctx context.Context) (err error) {
	if err := sp.renew(ctx); err != nil {
		return err
	}
	if sp.asked, err = sp.s.nc.Subscribe(sp.asks+sp.s.keeper, sp.hear); err != nil {
		return err
	}
	if err := sp.sweep(ctx); err != nil {
		return err
	}
	ctx, sp.stop = context.WithCancel(context.Background())
	sp.all.Go(func() {
		renew, sweep := time.NewTicker(renewInterval), time.NewTicker(sweepInterval)
		defer renew.Stop()
		defer sweep.Stop()
		for {
			var err error
			select {
			case <-renew.C:
				err = sp.renew(ctx)
			case <-sweep.C:
				err = sp.sweep(ctx)
			case <-ctx.Done():
				return
			}
			if err != nil && ctx.Err() == nil {
				sp.s.o.Log.Warn().Err(err).Msg("keeping the lease of this runnel, and looking for tasks of others that are gone")
			}
		}
	})
	return nil
}

// renew says that this process lives. If that could not be said for longer than others believe it, they may have ended its tasks.
func (sp *space) renew(ctx context.Context) error {
	m := &nats.Msg{Subject: sp.lease(sp.s.keeper), Header: rollup}
	if _, err := sp.publish(ctx, m, jetstream.WithMsgTTL(leaseTTL)); err != nil {
		return err
	}
	lapsed := !sp.renewed.IsZero() && time.Since(sp.renewed) > leaseTTL-renewInterval
	sp.renewed = time.Now()
	if !lapsed {
		return nil
	}
	sp.mu.Lock()
	mine := make([]string, 0, len(sp.live))
	for id := range sp.live {
		mine = append(mine, id)
	}
	sp.mu.Unlock()
	for _, id := range mine {
		r, err := sp.record(ctx, id)
		switch {
		case err != nil && !errors.Is(err, tasks.ErrNotFound):
			return err
		case err != nil || r.Keeper != sp.s.keeper:
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
	for _, mark := range []string{"live.*", "hidden.*"} {
		marks, err := sp.subjects(ctx, sp.subject("*", mark)) // before the leases: who has left a mark since has one
		if err != nil {
			return err
		}
		leases, err := sp.subjects(ctx, sp.lease("*"))
		if err != nil {
			return err
		}
		alive := map[string]bool{sp.s.keeper: true}
		for _, subject := range leases {
			alive[subject[strings.LastIndexByte(subject, '.')+1:]] = true
		}
		for _, subject := range marks {
			parts := strings.Split(strings.TrimPrefix(subject, sp.root), ".") // ID.live.KEEPER
			if len(parts) != 3 || alive[parts[2]] {
				continue
			}
			if err := sp.recover(ctx, parts[0], parts[2]); err != nil {
				return err
			}
			sp.unmark(ctx, parts[0], parts[1]+"."+parts[2])
		}
	}
	return nil
}

// recover ends a task whose keeper is gone: it has failed, with what it had written.
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
	r.Log = partials.Stored(sp.output(id, r.end), r.end)
	r.FailOrphan(ctx)
	r.UpdatedAt = sp.s.o.Now()
	stored := r.stored
	stored.put(&r.Task, sp.s.keeper)
	stored.Keeper, stored.End = "", r.end
	if err = sp.putOutcome(ctx, &r.Task, &stored, r.revision); err == nil {
		_, err = sp.putRecord(ctx, &r.Task, stored, r.revision)
	}
	if errors.Is(err, tasks.ErrFenced) { // somebody else was quicker
		return nil
	} else if err != nil {
		return err
	}
	sp.wake(id)
	sp.s.o.Log.Info().Str("taskId", id).Str("owner", sp.owner).Str("tool", r.Task.Tool).Msg("task recovered: its runnel is gone")
	return nil
}
