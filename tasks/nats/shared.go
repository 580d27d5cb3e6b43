package nats

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"runnel/rpc/mcp"
	"runnel/tasks"
)

// askTimeout is how long a keeper may take to hear what is asked of it.
const askTimeout = 2 * time.Second

// Ask implements tasks.State. The keeper acknowledges that it has heard.
func (s *State) Ask(ctx context.Context, owner, id string) error {
	sp, r, err := s.find(ctx, owner, id)
	if errors.Is(err, tasks.ErrNotFound) || err == nil && r.terminal() {
		return nil
	} else if err != nil {
		return err
	}
	if r.waits() {
		if err := sp.endUnkept(ctx, r, mcp.TaskCancelled, "cancelled by the client"); err != nil {
			return err
		}
		return s.Ask(ctx, owner, id) // a worker may have been quicker
	}
	if r.Keeper == s.keeper {
		sp.want(id)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	if _, err := s.nc.RequestWithContext(ctx, sp.asks+r.Keeper, []byte(id)); err != nil {
		return tasks.Trouble{Err: fmt.Errorf("the runnel that runs the task does not answer; if it is gone, the task ends within %v: %w", leaseTTL+2*sweepInterval, err)}
	}
	return nil
}

// want notes that somebody asks to cancel a task of this process.
func (sp *space) want(id string) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if sp.live[id] != nil {
		sp.wanted[id] = struct{}{}
		sp.s.notice()
	}
}

// hear answers what others ask.
func (sp *space) hear(m *nats.Msg) {
	sp.want(string(m.Data))
	_ = m.Respond(nil)
}

// heedInterval is how often Heed repeats what it has returned.
const heedInterval = 250 * time.Millisecond

// Heed implements tasks.State.
func (s *State) Heed(ctx context.Context) (asked, fenced []string, err error) {
	s.heeding.Add(1)
	defer s.heeding.Add(-1)
	again := make(<-chan time.Time) // never, if there is nothing to repeat
	asked, fenced = s.wanted()
	if len(asked)+len(fenced) > 0 {
		again = time.After(heedInterval)
	}
	select {
	case <-s.heed:
	case <-again:
	case <-time.After(time.Second): // a runner that has nothing left to watch goes
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	asked, fenced = s.wanted()
	return asked, fenced, nil
}

// opened are the spaces of owners that this process has met.
func (s *State) opened() []*space {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.spaces))
}

func (s *State) wanted() (asked, fenced []string) {
	for _, sp := range s.opened() {
		sp.mu.Lock()
		asked = slices.AppendSeq(asked, maps.Keys(sp.wanted))
		fenced = slices.AppendSeq(fenced, maps.Keys(sp.fenced))
		sp.mu.Unlock()
	}
	return asked, fenced
}

// Take implements tasks.State.
func (s *State) Take(ctx context.Context, t tasks.Task, work []byte) (tasks.Task, error) {
	sp, r, err := s.find(ctx, t.Owner, t.ID)
	if err == nil && (r.terminal() || r.Work != nil) {
		err = errors.New("the task has ended, or another process runs it")
	}
	if err != nil {
		return tasks.Task{}, err
	}
	before := r.Keeper
	r.Keeper, r.Work, r.Writer, r.stored.Variables = s.keeper, work, s.keeper, nil
	if r.Offer != nil {
		r.Offer.Attempt++
	}
	r.take()
	r.Log, r.Segments = t.Log, t.Segments
	k := sp.keeping(r.Task, r.stored)
	k.numbers = true
	if r.Task.Attempt > 1 {
		if err := k.resume(ctx, r); err != nil {
			return tasks.Task{}, err
		}
	}
	if _, err := sp.publish(ctx, nats.NewMsg(sp.subject(t.ID, "live."+s.keeper)), sp.expiring(&r.Task)); err != nil {
		return tasks.Task{}, err
	}
	k.revision, err = sp.putRecord(ctx, &r.Task, r.stored, r.revision)
	if errors.Is(err, tasks.ErrFenced) { // else it may be this one's, which is found out when this process is gone
		sp.unmark(ctx, t.ID, "live."+s.keeper)
	}
	if err != nil {
		return tasks.Task{}, err
	}
	sp.unmark(ctx, t.ID, "live."+before)
	k.begin()
	sp.wake(t.ID)
	return r.Task, nil
}

// Taken implements tasks.State.
func (s *State) Taken(ctx context.Context, id string) (bool, error) {
	for _, sp := range s.opened() {
		sp.mu.Lock()
		mine := sp.live[id] != nil
		sp.mu.Unlock()
		if !mine {
			continue
		}
		r, err := sp.record(ctx, id)
		switch {
		case errors.Is(err, tasks.ErrNotFound): // it has ended since, and was deleted
		case err != nil:
			return false, err
		case r.Keeper == s.keeper:
			return false, nil
		}
		sp.forget(id)
		return true, nil
	}
	return true, nil
}

// lookInterval is how often a task of another process is looked at though nothing was heard of it.
const lookInterval = time.Second

// Watch implements tasks.State.
func (s *State) Watch(ctx context.Context, t *tasks.Task) error {
	sp, err := s.space(ctx, t.Owner)
	if err != nil {
		return err
	}
	heard, err := s.nc.SubscribeSync(sp.wakes + t.ID)
	if err != nil {
		return unreachable(err)
	}
	defer func() { _ = heard.Unsubscribe() }()
	for {
		changed, err := sp.look(ctx, t)
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if changed || err != nil {
			return err
		}
		wait, cancel := context.WithTimeout(ctx, lookInterval)
		_, err = heard.NextMsgWithContext(wait)
		cancel()
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			return unreachable(err)
		}
	}
}

// look brings a task of another process up to date.
func (sp *space) look(ctx context.Context, t *tasks.Task) (changed bool, err error) {
	r, err := sp.record(ctx, t.ID)
	if err != nil {
		return false, err
	}
	if r.overdue(sp.s.o.Now()) {
		if err := sp.endOverdue(ctx, r); err != nil {
			return false, err
		}
		return sp.look(ctx, t)
	}
	sp.describe(ctx, r)
	if err := sp.outcome(ctx, r); err != nil {
		return false, err
	}
	return t.Update(ctx, tasks.Newer{Task: r.Task, Ending: r.ending, End: r.end, Output: sp.output(r.ID, r.end), Ends: func(ctx context.Context, n int, last int64) ([]int64, error) {
		return sp.ends(ctx, r, n, last)
	}})
}
