package nats

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

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
	sp.mu.Lock()
	k := sp.live[t.ID]
	sp.mu.Unlock()
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

// insert stores a new task: its place in lists and the mark that it lives first, its record last, so that what can be seen is whole.
func (sp *space) insert(ctx context.Context, t tasks.Task, hidden bool) (err error) {
	if !isToken(t.ID) {
		return errors.New("an id of a task has other characters than letters, digits, - and _")
	}
	if !hidden {
		if err := sp.admit(ctx, &t); err != nil {
			return err
		}
	}
	defer func() {
		if err != nil && !errors.Is(err, tasks.ErrFenced) { // else it is there, of somebody else
			sp.mu.Lock()
			sp.doubtful[t.ID] = struct{}{}
			sp.mu.Unlock()
		}
	}()
	r := stored{Hidden: hidden, Keeper: sp.s.keeper, Variables: nil}
	r.put(&t, sp.s.keeper)
	ttl := sp.expiring(&t)
	if _, err := sp.publish(ctx, nats.NewMsg(sp.subject(t.ID, sp.mark(hidden))), ttl); err != nil {
		return err
	}
	if _, err := sp.publish(ctx, &nats.Msg{Subject: sp.subject(t.ID, "made"), Header: rollup}, ttl); err != nil {
		return err
	}
	if len(t.Variables) > 0 {
		if _, err := sp.publish(ctx, &nats.Msg{Subject: sp.subject(t.ID, "variables"), Header: rollup, Data: t.Variables}, ttl); err != nil {
			return err
		}
	}
	k := sp.keeping(t, r)
	if k.revision, err = sp.putRecord(ctx, &t, r, 0); err != nil {
		return err
	}
	k.begin()
	return nil
}

// mark is what stands in the stream while this process runs a task.
func (sp *space) mark(hidden bool) string {
	if hidden {
		return "hidden." + sp.s.keeper
	}
	return "live." + sp.s.keeper
}

// putRecord stores a record if revision is the one that stands there, and returns the new one.
func (sp *space) putRecord(ctx context.Context, t *tasks.Task, r stored, revision uint64) (uint64, error) {
	data, err := json.Marshal(r)
	if err != nil {
		return 0, err
	}
	m := &nats.Msg{Subject: sp.subject(t.ID, "task"), Header: nats.Header{jetstream.MsgRollup: {jetstream.MsgRollupSubject}, jetstream.MsgIDHeader: {uuid.NewString()}}, Data: data}
	written, err := sp.publish(ctx, m, jetstream.WithExpectLastSequencePerSubject(revision), sp.expiring(t))
	if errors.Is(err, tasks.ErrFenced) { // perhaps by this one: it was stored, and the server that knew its id has died
		there, unread := sp.newest(ctx, m.Subject)
		if unread != nil { // an election: it is not known yet whose it is
			return 0, unread
		}
		if there != nil && bytes.Equal(there.Data, data) {
			return there.Sequence, nil
		}
	}
	return written, err
}

// put stores a later state of a task of this process. All that the log holds is stored before a terminal one, and so is the outcome.
func (k *keeping) put(ctx context.Context, t *tasks.Task) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	sp, r := k.sp, k.record
	ended := t.Status.Terminal()
	var err error
	if ended {
		err = k.flush(ctx)
	} else {
		err = k.resend(ctx)
	}
	if ended && errors.Is(err, tasks.ErrFenced) {
		sp.forget(k.id)
	}
	if err != nil {
		return err
	}
	if ended && k.over { // by a try that nobody has acknowledged: others may have seen it
		k.leave(ctx)
		return nil
	}
	if ended && t.Status == mcp.TaskCompleted && k.log.Failed() != nil {
		return k.log.Failed()
	}
	if r.Hidden {
		if err := sp.admit(ctx, t); err != nil {
			return err
		}
		if _, err := sp.publish(ctx, nats.NewMsg(sp.subject(k.id, "live."+sp.s.keeper)), sp.expiring(t)); err != nil {
			return err
		}
		if len(t.Variables) > 0 {
			if _, err := sp.publish(ctx, &nats.Msg{Subject: sp.subject(t.ID, "variables"), Header: rollup, Data: t.Variables}, sp.expiring(t)); err != nil {
				return err
			}
		}
	}
	r.Hidden = false
	r.put(t, sp.s.keeper)
	if ended {
		r.Keeper, r.End, r.Numbered = "", k.end.Load(), k.numbered
		if err := sp.putOutcome(ctx, t, &r, k.revision); err != nil {
			return k.ended(err)
		}
	}
	revision, err := sp.putRecord(ctx, t, r, k.revision)
	if err != nil {
		k.unsure = errors.Is(err, tasks.ErrBusy)
		if ended {
			return k.ended(err)
		}
		return err
	}
	hidden := k.record.Hidden
	k.record, k.revision, k.task = r, revision, t
	if hidden {
		sp.unmark(ctx, k.id, "hidden."+sp.s.keeper)
	}
	if hidden && !k.log.Backed() && !ended { // it could not be written once
		k.log.Back(k)
	}
	if ended {
		k.leave(ctx)
		return nil
	}
	sp.wake(k.id)
	return nil
}

// leave ends the keeping of a task whose end is stored.
func (k *keeping) leave(ctx context.Context) {
	k.sp.unmark(ctx, k.id, "live."+k.sp.s.keeper)
	k.sp.forget(k.id)
	k.sp.wake(k.id)
}

// ended lets go of a task that others have ended.
func (k *keeping) ended(err error) error {
	if errors.Is(err, tasks.ErrFenced) {
		k.sp.forget(k.id)
	}
	return err
}

// putOutcome stores the outcome of a task and its variables for the record that is to come.
func (sp *space) putOutcome(ctx context.Context, t *tasks.Task, r *stored, revision uint64) error {
	outcome, err := tasks.EncodeOutcome(t)
	if err != nil {
		return err
	}
	r.Attempt, r.Pieces = uuid.NewString(), 0
	for piece := range slices.Chunk(outcome, pieceBytes) {
		m := nats.NewMsg(sp.subject(t.ID, "result."+r.Attempt))
		m.Header.Set(jetstream.MsgIDHeader, r.Attempt+"."+strconv.Itoa(r.Pieces))
		m.Data = piece
		if _, err := sp.publish(ctx, m, jetstream.WithExpectLastSequenceForSubject(revision, sp.subject(t.ID, "task")), sp.expiring(t)); err != nil {
			return err
		}
		r.Pieces++
	}
	r.Variables, err = sp.seal(ctx, t, revision)
	return err
}

// sealHeader, on variables, is the revision of the record whose task is about to end with them.
const sealHeader = "Runnel-Sealed"

// seal lets nobody set the variables of a task any more, whose end is about to be stored, and returns them: those that were set count.
func (sp *space) seal(ctx context.Context, t *tasks.Task, revision uint64) (variables []byte, err error) {
	for {
		m := nats.NewMsg(sp.subject(t.ID, "variables"))
		m.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
		m.Header.Set(sealHeader, strconv.FormatUint(revision, 10))
		var seen uint64
		if there, err := sp.newest(ctx, m.Subject); err != nil {
			return nil, err
		} else if there != nil {
			seen, m.Data = there.Sequence, there.Data
		}
		if _, err = sp.publish(ctx, m, jetstream.WithExpectLastSequencePerSubject(seen), sp.expiring(t)); !errors.Is(err, tasks.ErrFenced) {
			return m.Data, err
		} // somebody has set some meanwhile
	}
}

// unmark takes away that a process runs a task. If that fails, a sweep does it.
func (sp *space) unmark(ctx context.Context, id, mark string) {
	ctx, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	_ = sp.stream.Purge(ctx, jetstream.WithPurgeSubject(sp.subject(id, mark)))
}

// MarkFetched implements tasks.State.
func (s *State) MarkFetched(ctx context.Context, owner, id string) error {
	sp, r, err := s.find(ctx, owner, id)
	if err != nil {
		return nil //nolint:nilerr // it is gone, or has no result that somebody could have got
	}
	_, err = sp.publish(ctx, &nats.Msg{Subject: sp.subject(id, "fetched"), Header: rollup}, sp.expiring(&r.Task))
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
	sp.mu.Lock()
	k := sp.live[id]
	sp.mu.Unlock()
	if k != nil {
		k.log.Unback() // nothing more of it is written
		sp.forget(id)
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if err := sp.stream.Purge(ctx, jetstream.WithPurgeSubject(sp.subject(id, ">"))); err != nil {
		return unreachable(err)
	}
	sp.wake(id)
	return nil
}

// SetVariables implements tasks.State. Variables stand beside the record, which its keeper alone changes; with the end they become part of it
// (seal).
func (s *State) SetVariables(ctx context.Context, owner, id string, patch []byte) ([]byte, error) {
	for {
		sp, r, err := s.find(ctx, owner, id)
		if errors.Is(err, tasks.ErrNotFound) || err == nil && (r.terminal() || r.sealed) {
			return nil, tasks.ErrEnded
		} else if err != nil {
			return nil, err
		}
		merged, err := tasks.MergeVariables(r.Task.Variables, patch)
		if err != nil {
			return nil, err
		}
		m := &nats.Msg{Subject: sp.subject(id, "variables"), Header: rollup, Data: merged}
		_, err = sp.publish(ctx, m, jetstream.WithExpectLastSequencePerSubject(r.variables), sp.expiring(&r.Task))
		if errors.Is(err, tasks.ErrFenced) { // somebody else has set some
			continue
		} else if err != nil {
			return nil, err
		}
		sp.wake(id)
		return merged, nil
	}
}
