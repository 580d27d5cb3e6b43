package redis

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"runnel/tasks"
)

// Ask implements tasks.State.
func (s *State) Ask(ctx context.Context, owner, id string) error {
	sp, r, err := s.find(ctx, owner, id)
	if errors.Is(err, tasks.ErrNotFound) || err == nil && r.terminal() {
		return nil
	} else if err != nil {
		return err
	}
	_, err = sp.call(ctx, "ask", id, sp.left(&r.Task))
	return err
}

const (
	// heedInterval is how often Heed repeats what it has returned.
	heedInterval = 250 * time.Millisecond
	// heedMost is how long it waits before it looks by itself.
	heedMost = time.Second
)

// Heed implements tasks.State.
func (s *State) Heed(ctx context.Context) (asked, fenced []string, err error) {
	wait := heedMost
	if asked, fenced, err = s.wanted(ctx); err == nil && len(asked)+len(fenced) > 0 {
		wait = heedInterval
	}
	select {
	case <-s.heed:
	case <-time.After(wait):
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	return s.wanted(ctx)
}

func (s *State) wanted(ctx context.Context) (asked, fenced []string, err error) {
	s.mu.Lock()
	spaces := slices.Collect(maps.Values(s.spaces))
	s.mu.Unlock()
	for _, sp := range spaces {
		sp.mu.Lock()
		runs := len(sp.live)
		fenced = slices.AppendSeq(fenced, maps.Keys(sp.fenced))
		sp.mu.Unlock()
		if runs == 0 {
			continue
		}
		answer, failed := sp.read(ctx, func(b rueidis.Builder) rueidis.Completed {
			return b.Smembers().Key(sp.root + "asked:" + s.keeper).Build()
		})
		if failed != nil {
			err = failed
			continue
		}
		ids, _ := answer.AsStrSlice()
		for _, id := range ids {
			if sp.keeping(id) != nil {
				asked = append(asked, id)
			}
		}
	}
	return asked, fenced, err
}

// Take implements tasks.State.
func (s *State) Take(ctx context.Context, t tasks.Task, work []byte) (tasks.Task, error) {
	sp, r, err := s.find(ctx, t.Owner, t.ID)
	if err == nil && (r.terminal() || r.Detached) {
		err = errors.New("the task has ended, or another process runs it")
	}
	if err != nil {
		return tasks.Task{}, err
	}
	if _, err := sp.call(ctx, "take", t.ID, sp.left(&r.Task), r.keeper, string(work)); err != nil {
		return tasks.Task{}, err
	}
	r.Detached = true
	r.Log, r.Segments = t.Log, t.Segments
	k := sp.keep(r.Task, false, r.write)
	k.numbers = true
	return r.Task, nil
}

// Taken implements tasks.State.
func (s *State) Taken(ctx context.Context, id string) (bool, error) {
	s.mu.Lock()
	spaces := slices.Collect(maps.Values(s.spaces))
	s.mu.Unlock()
	for _, sp := range spaces {
		if sp.keeping(id) == nil {
			continue
		}
		answer, err := sp.read(ctx, func(b rueidis.Builder) rueidis.Completed {
			return b.Hget().Key(sp.root + "task:" + id).Field("keeper").Build()
		})
		if err != nil {
			return false, err
		}
		if keeper, _ := answer.ToString(); keeper == s.keeper { // else it was taken, or has ended since and was deleted
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
	heard := make(chan struct{}, 1)
	tell := func() {
		select {
		case heard <- struct{}{}:
		default:
		}
	}
	over := sp.hear(ctx, t.ID, tell)
	defer over()
	for {
		changed, err := sp.look(ctx, t)
		if err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if changed || err != nil {
			return err
		}
		select {
		case <-heard:
		case <-time.After(lookInterval):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// hear calls tell, once to begin with, and when something was stored of a task, until over is called. If it cannot, lookInterval does.
func (sp *space) hear(ctx context.Context, id string, tell func()) (over func()) {
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c, channel := sp.s.client, sp.root+"wake:"+id
		began := rueidis.WithOnSubscriptionHook(ctx, func(rueidis.PubSubSubscription) { tell() }) // what was stored before was not heard
		_ = c.Receive(began, c.B().Subscribe().Channel(channel).Build(), func(rueidis.PubSubMessage) { tell() })
		leave, cancel := context.WithTimeout(context.Background(), leaveTimeout)
		defer cancel()
		c.Do(leave, c.B().Unsubscribe().Channel(channel).Build()) // Receive leaves the server subscribed
	}()
	return func() { stop(); <-ended }
}

// look brings a task of another process up to date.
func (sp *space) look(ctx context.Context, t *tasks.Task) (changed bool, err error) {
	found, err := sp.records(ctx, []string{t.ID})
	if err != nil {
		return false, err
	}
	r := found[0]
	if r == nil {
		return false, tasks.ErrNotFound
	}
	if err := sp.outcome(ctx, r); err != nil {
		return false, err
	}
	return t.Update(ctx, tasks.Newer{Task: r.Task, Ending: r.ending, End: r.end, Output: output{sp, r.ID}, Ends: func(ctx context.Context, n int, last int64) ([]int64, error) {
		return sp.ends(ctx, r, n, last)
	}})
}
