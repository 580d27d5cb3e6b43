package nats

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"runnel/internal/pause"
	"runnel/tasks"
	"runnel/tasks/engine"
)

// Insert implements engine.Driver: its mark and its place in lists come first, its record last, so that what
// can be seen is whole.
func (sp *space) Insert(ctx context.Context, r *engine.Record) error {
	if err := sp.admit(ctx, r); err != nil {
		return err
	}
	before := []write{{&nats.Msg{Subject: sp.subject(r.ID, "made"), Header: rollup}, sp.expires(r)}}
	if len(r.Variables) > 0 {
		before = append(before, sp.variablesOf(r))
	}
	if r.Body != nil {
		before = append(before, sp.offerOf(r))
	}
	sequences, err := sp.putRecord(ctx, r, before...)
	if err != nil {
		return err
	}
	if len(r.Variables) > 0 {
		r.Seen, r.SeenData = sequences[1], r.Variables
	}
	sp.keeps.Store(true)
	return nil
}

// Write implements engine.Driver.
func (sp *space) Write(ctx context.Context, r *engine.Record, wasHidden bool) error {
	if wasHidden {
		if err := sp.admit(ctx, r); err != nil {
			return err
		}
		if len(r.Variables) > 0 {
			first := sp.variablesOf(r)
			seen, err := sp.publish(ctx, first.m, first.o...)
			if err != nil {
				return err
			}
			r.Seen, r.SeenData = seen, r.Variables
		}
	}
	if _, err := sp.putRecord(ctx, r); err != nil {
		return err
	}
	if wasHidden {
		// If that fails, here and below, a sweep does it.
		_ = sp.Unmark(ctx, engine.Mark{ID: r.ID, Keeper: r.Stored.Keeper, Hidden: true})
		sp.wake(r.ID, wake{})
	} else {
		sp.wakeRecord(r, nil)
	}
	return nil
}

// variablesOf is the message that stores the variables with which a record is made.
func (sp *space) variablesOf(r *engine.Record) write {
	m := &nats.Msg{Subject: sp.subject(r.ID, "variables"), Header: rollup, Data: r.Variables}
	return write{m, sp.expires(r)}
}

// offerOf is the message that stores the offer of a task that waits.
func (sp *space) offerOf(r *engine.Record) write {
	m := &nats.Msg{Subject: sp.subject(r.ID, "offer"), Header: rollup, Data: r.Body}
	return write{m, sp.expires(r)}
}

// expires is the option of what is stored of a task.
func (sp *space) expires(r *engine.Record) []jetstream.PublishOpt {
	return []jetstream.PublishOpt{sp.expiring(&r.Task)}
}

// leaveTime is how long the mark of the process that has had a task before stays: most tasks have ended by
// then, and their end removes all of their marks.
const leaveTime = time.Second

// leave removes the mark of the process that has had a task before, while the caller goes on, unless the task
// ends within leaveTime. The task may be marked as that process's again by then: that mark stands behind the
// record.
func (sp *space) leave(r *engine.Record, before string) {
	id, mark, behind := r.ID, sp.marks(r.ID, before, r.Hidden), r.Revision
	sp.leaving.Store(id, behind)
	sp.Go(func(ctx context.Context) {
		if !pause.For(ctx, leaveTime) || !sp.leaving.CompareAndDelete(id, behind) {
			return
		}
		ctx, cancel := context.WithTimeout(ctx, ackTimeout)
		defer cancel()
		_ = sp.stream.Purge(ctx, jetstream.WithPurgeSubject(mark), jetstream.WithPurgeSequence(behind))
	})
}

// putRecord stores a record if r.Revision is the stored one, right behind other messages, and sets the new
// one. It returns the sequence numbers of all of them.
func (sp *space) putRecord(ctx context.Context, r *engine.Record, before ...write) ([]uint64, error) {
	data, err := json.Marshal(r.Stored)
	if err != nil {
		return nil, err
	}
	m := &nats.Msg{Subject: sp.subject(r.ID, "task"),
		Header: nats.Header{jetstream.MsgRollup: {jetstream.MsgRollupSubject},
			jetstream.MsgIDHeader: {uuid.NewString()}}, Data: data}
	known := append(sp.expires(r), jetstream.WithExpectLastSequencePerSubject(r.Revision))
	sequences, err := sp.publishInOrder(ctx, append(before, write{m, known})...)
	written := sequences[len(before)]
	// This process may have stored it itself, and the server that knew the message's id has died.
	if errors.Is(err, tasks.ErrFenced) {
		there, unread := sp.newest(ctx, m.Subject)
		if unread != nil { // an election, for example: it is not known yet whose record is stored
			return nil, unread
		}
		if there != nil && bytes.Equal(there.Data, data) {
			written, err = there.Sequence, nil
		}
	}
	if err == nil {
		r.Revision = written
	}
	return sequences, err
}

// fence makes the server refuse a message if the record is no longer the one that this process has stored.
func (sp *space) fence(r *engine.Record) jetstream.PublishOpt {
	return jetstream.WithExpectLastSequenceForSubject(r.Revision, sp.subject(r.ID, "task"))
}

// End implements engine.Driver. The outcome and the variables come first, and the record makes them count.
func (sp *space) End(ctx context.Context, r *engine.Record, outcome []byte) error {
	return sp.withReserve(ctx, func() error { return sp.end(ctx, r, outcome) })
}

func (sp *space) end(ctx context.Context, r *engine.Record, outcome []byte) error {
	ended := *r
	s := &ended.Stored
	s.Keeper = ""
	s.Attempt = uuid.NewString()
	s.Pieces = 0
	err := together(func() error {
		for piece := range slices.Chunk(outcome, pieceBytes) {
			m := nats.NewMsg(sp.subject(r.ID, "result."+s.Attempt))
			m.Header.Set(jetstream.MsgIDHeader, s.Attempt+"."+strconv.Itoa(s.Pieces))
			m.Data = piece
			if _, err := sp.publish(ctx, m, sp.fence(r), sp.expiring(&r.Task)); err != nil {
				return err
			}
			s.Pieces++
		}
		return nil
	}, func() (err error) { s.Variables, err = sp.seal(ctx, r); return err })
	if err != nil {
		return err
	}
	if _, err := sp.putRecord(ctx, &ended); err != nil {
		return err
	}
	_ = sp.Unmark(ctx, engine.Mark{ID: r.ID, Keeper: "*"}) // if that fails, a sweep does it
	sp.leaving.Delete(r.ID)
	sp.wakeRecord(&ended, outcome)
	return nil
}

// seal keeps others from setting the variables of a task whose end is about to be stored, and returns them.
func (sp *space) seal(ctx context.Context, r *engine.Record) (variables []byte, err error) {
	for look := false; ; look = true {
		m := nats.NewMsg(sp.subject(r.ID, "variables"))
		m.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
		m.Header.Set(sealHeader, strconv.FormatUint(r.Revision, 10))
		seen := r.Seen
		m.Data = r.SeenData
		if look { // another process has set some
			there, err := sp.newest(ctx, m.Subject)
			if err != nil {
				return nil, err
			}
			if seen, m.Data = 0, nil; there != nil {
				seen, m.Data = there.Sequence, there.Data
			}
		}
		if _, err = sp.publish(ctx, m, jetstream.WithExpectLastSequencePerSubject(seen),
			sp.expiring(&r.Task)); !errors.Is(err, tasks.ErrFenced) {
			return m.Data, err
		}
	}
}

// Append implements engine.Driver: a message for each extent. The server knows a repeated one by its id, and
// stores it once.
func (sp *space) Append(ctx context.Context, r *engine.Record, b *engine.Batch) error {
	send := func(what, id string, header nats.Header, data []byte) (uint64, error) {
		m := &nats.Msg{Subject: sp.subject(r.ID, what), Header: header, Data: data}
		m.Header.Set(jetstream.MsgIDHeader, fmt.Sprintf("%s.%s.%s", sp.Keeper, r.ID, id))
		return sp.publish(ctx, m, sp.fence(r), sp.expiring(&r.Task))
	}
	says := wake{End: b.To}
	for i := range b.Extents {
		e, part := &b.Extents[i], "log.head"
		if b.Tail(e) {
			part = "log.tail"
		}
		start := strconv.FormatInt(e.Start, 10)
		marks := base64.StdEncoding.EncodeToString(e.Marks)
		stored, err := send(part, "log."+start,
			nats.Header{startHeader: {start}, marksHeader: {marks}}, e.Data)
		if err != nil {
			return err
		}
		says.Next = stored + 1
	}
	if b.Numbers != nil {
		first := strconv.Itoa(b.First)
		if _, err := send("ends", "ends."+first, nats.Header{firstHeader: {first}}, b.Numbers); err != nil {
			return err
		}
	}
	if n := len(b.Cut); n > 0 {
		sp.cut(ctx, r.ID, b.Cut[n-1])
	}
	if len(b.Extents) == 1 {
		says.Output = &b.Extents[0]
	}
	if b.Numbers != nil {
		says.First, says.Numbers = int64(b.First), b.Numbers
	}
	if says.Next == 0 {
		says = wake{}
	}
	sp.wake(r.ID, says)
	return nil
}

// cut deletes the tail of a log up to a position. If it fails, the next cut deletes it.
func (sp *space) cut(ctx context.Context, id string, to int64) {
	tail := sp.subject(id, "log.tail")
	sequence, err := sp.seek(ctx, tail, to, startOf)
	if err != nil || sequence == 0 { // up to 0 would be all
		return
	}
	ctx, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	_ = sp.stream.Purge(ctx, jetstream.WithPurgeSubject(tail), jetstream.WithPurgeSequence(sequence))
}

// Take implements engine.Driver. The mark comes first: a record without one would not be recovered.
func (sp *space) Take(ctx context.Context, r *engine.Record, before string) error {
	sp.keeps.Store(true)
	var known []jetstream.PublishOpt
	if r.Stored.Offer == nil { // its variables say whether it may be taken (tasks.ResumeNote)
		known = append(known, jetstream.WithExpectLastSequenceForSubject(r.Seen,
			sp.subject(r.ID, "variables")))
	}
	if err := sp.putMark(ctx, r, known...); err != nil {
		return err
	}
	_, err := sp.putRecord(ctx, r)
	switch {
	case err == nil:
		sp.wakeRecord(r, nil)
		sp.leave(r, before)
	case errors.Is(err, tasks.ErrFenced): // otherwise this process may be the keeper
		_ = sp.Unmark(ctx, engine.Mark{ID: r.ID, Keeper: sp.Keeper})
	}
	return err
}

// PutWaiting implements engine.Queue. The mark and the offer come first: without them the record must not be
// there.
func (sp *space) PutWaiting(ctx context.Context, r *engine.Record, before string) error {
	all := []write{sp.mark(r)}
	if r.Body != nil { // it is new
		all = append(all, sp.offerOf(r))
	}
	if _, err := sp.publishInOrder(ctx, all...); err != nil {
		return err
	}
	if _, err := sp.putRecord(ctx, r); err != nil {
		return err
	}
	if r.Stored.Offer.Front != sp.Keeper { // otherwise no other process knows the task yet
		sp.wakeRecord(r, nil)
	}
	sp.leave(r, before)
	return nil
}

// SetVariables implements engine.Driver. Variables stand beside the record; with the end they become part of
// it (seal).
func (sp *space) SetVariables(ctx context.Context, r *engine.Record, merged []byte) error {
	m := &nats.Msg{Subject: sp.subject(r.ID, "variables"), Header: rollup, Data: merged}
	_, err := sp.publish(ctx, m, jetstream.WithExpectLastSequencePerSubject(r.Seen), sp.expiring(&r.Task))
	if err == nil {
		sp.wake(r.ID, wake{})
	}
	return err
}

// MarkFetched implements engine.Driver.
func (sp *space) MarkFetched(ctx context.Context, r *engine.Record) error {
	_, err := sp.publish(ctx, &nats.Msg{Subject: sp.subject(r.ID, "fetched"), Header: rollup},
		sp.expiring(&r.Task))
	return err
}

// Delete implements engine.Driver. The leader of the stream notes how far the stream reaches when it is
// asked, and purges up to there: a write of another process that it has accepted, but not stored, stays,
// until its time to live has passed.
func (sp *space) Delete(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	for _, subject := range []string{sp.subject(id, ">"), sp.marks(id, "*", false), sp.marks(id, "*", true)} {
		if err := sp.stream.Purge(ctx, jetstream.WithPurgeSubject(subject)); err != nil {
			return unreachable(err)
		}
	}
	sp.wake(id, wake{})
	return nil
}
