package redis

import (
	"context"
	"errors"
	"strconv"

	"runnel/rpc/mcp"
	"runnel/tasks"
)

// Put implements tasks.State. A task that this process puts for the first time is its own to run: until a terminal status is put, its
// log is written to the state as it grows.
func (s *State) Put(ctx context.Context, t tasks.Task) error {
	sp, err := s.space(ctx, t.Owner)
	if err != nil {
		return err
	}
	k := sp.keeping(t.ID)
	if k == nil {
		if t.Status.Terminal() {
			return tasks.ErrFenced
		}
		return sp.insert(ctx, t, false)
	}
	return k.put(ctx, &t)
}

// Hide implements tasks.State. A hidden task gets a handle with Put, or is deleted when its run ends.
func (s *State) Hide(t tasks.Task) error {
	ctx := context.Background()
	sp, err := s.space(ctx, t.Owner)
	if err == nil {
		err = sp.insert(ctx, t, true)
	}
	return err
}

// insert stores a new task.
func (sp *space) insert(ctx context.Context, t tasks.Task, hidden bool) error {
	if !isToken(t.ID) {
		return errors.New("an id of a task has other characters than letters, digits, - and _")
	}
	var r stored
	r.put(&t)
	if err := sp.write(ctx, &t, r, true, hidden, 1); err != nil {
		if errors.Is(err, tasks.ErrBusy) {
			sp.mu.Lock()
			sp.doubtful[t.ID] = struct{}{}
			sp.mu.Unlock()
		}
		return err
	}
	sp.keep(t, hidden, 1)
	return nil
}

// write stores a record for a task that works.
func (sp *space) write(ctx context.Context, t *tasks.Task, r stored, fresh, hidden bool, number int64) error {
	record, err := r.encode()
	if err != nil {
		return err
	}
	limits := sp.s.o.Limits
	if t.Ending {
		limits = tasks.Limits{}
	}
	said, err := sp.call(ctx, "put", t.ID, sp.left(t), flag(fresh), flag(hidden), strconv.FormatInt(number, 10), record, string(t.Variables),
		strconv.Itoa(limits.MaxLive), strconv.Itoa(limits.MaxStartsPerMinute))
	switch said {
	case "live":
		return tasks.ErrTooManyLive
	case "starts":
		return tasks.ErrTooManyStarts
	}
	return err
}

func flag(is bool) string {
	if is {
		return "1"
	}
	return "0"
}

// put stores a later state of a task of this process. All that the log holds is stored before a terminal one, and so is the outcome.
func (k *keeping) put(ctx context.Context, t *tasks.Task) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	sp := k.sp
	var r stored
	r.put(t)
	if t.Status.Terminal() {
		err := k.finish(ctx, t, r)
		if err == nil || errors.Is(err, tasks.ErrFenced) {
			sp.forget(k.id)
		}
		return err
	}
	if err := sp.write(ctx, t, r, false, false, k.writes+1); err != nil {
		return err
	}
	k.writes++
	k.task = t
	if k.hidden && !k.log.Backed() { // it could not be written once
		k.log.Back(k)
	}
	k.hidden = false
	return nil
}

// finish stores the end of a task. k.mu is held.
func (k *keeping) finish(ctx context.Context, t *tasks.Task, r stored) error {
	if k.hidden {
		if err := k.sp.write(ctx, t, k.working(), false, false, k.writes+1); err != nil {
			return err
		}
		k.writes++
		k.hidden = false
	}
	err := k.flush(ctx)
	if k.unsure && errors.Is(err, tasks.ErrFenced) { // perhaps by a try of this one, which counts then: others may have seen it
		err = nil
	}
	if err != nil {
		return err
	}
	if t.Status == mcp.TaskCompleted && k.log.Failed() != nil {
		return k.log.Failed()
	}
	r.Numbered = k.numbered
	err = k.sp.finish(ctx, t, r, k.sp.s.keeper)
	k.unsure = errors.Is(err, tasks.ErrBusy)
	return err
}

// working is the record of a task whose end is still to come.
func (k *keeping) working() (r stored) {
	t := *k.task
	t.Status = mcp.TaskWorking
	r.put(&t)
	return r
}

// finish stores the end of a task of a keeper: of this process, or of one that is gone.
func (sp *space) finish(ctx context.Context, t *tasks.Task, r stored, keeper string) error {
	outcome, err := tasks.EncodeOutcome(t)
	if err != nil {
		return err
	}
	r.Outcome = len(outcome)
	record, err := r.encode()
	if err == nil {
		_, err = sp.call(ctx, "finish", t.ID, sp.left(t), keeper, record, string(outcome))
	}
	return err
}

// MarkFetched implements tasks.State.
func (s *State) MarkFetched(ctx context.Context, owner, id string) error {
	sp, r, err := s.find(ctx, owner, id)
	if err != nil {
		return nil //nolint:nilerr // it is gone, or has no result that somebody could have got
	}
	_, err = sp.call(ctx, "fetched", id, sp.left(&r.Task))
	return err
}

// Delete implements tasks.State.
func (s *State) Delete(ctx context.Context, owner, id string) error {
	if !isToken(id) {
		return nil
	}
	sp, err := s.space(ctx, owner)
	if err != nil {
		return err
	}
	if k := sp.keeping(id); k != nil {
		k.log.Unback() // nothing more of it is written
		sp.forget(id)
	}
	_, err = sp.call(ctx, "delete", id, 0, "")
	return err
}

// SetVariables implements tasks.State.
func (s *State) SetVariables(ctx context.Context, owner, id string, patch []byte) ([]byte, error) {
	for {
		sp, r, err := s.find(ctx, owner, id)
		if errors.Is(err, tasks.ErrNotFound) || err == nil && r.terminal() {
			return nil, tasks.ErrEnded
		} else if err != nil {
			return nil, err
		}
		merged, err := tasks.MergeVariables(r.Variables, patch)
		if err != nil {
			return nil, err
		}
		switch said, err := sp.call(ctx, "set", id, sp.left(&r.Task), string(r.Variables), string(merged)); {
		case err != nil:
			return nil, err
		case said == "ended":
			return nil, tasks.ErrEnded
		case said == "ok":
			return merged, nil
		}
	}
}
