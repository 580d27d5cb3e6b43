package nats

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go/jetstream"

	"runnel/partials"
)

// output returns what is stored of a task's output up to a position.
func (sp *space) output(id string, end int64) *output {
	o := &output{sp: sp, id: id}
	o.end.Store(end)
	return o
}

// output is what is stored of a task's output.
type output struct {
	sp  *space
	id  string
	end atomic.Int64 // where it ends, as far as was acknowledged

	next struct { // where the last load has ended
		sync.Mutex
		place
	}
}

// Due implements partials.Backing: nothing is written here.
func (o *output) Due(bool) {}

const loadMessages = 256

// Load implements partials.Backing.
func (o *output) Load(ctx context.Context, pos int64, limit int) (list []partials.Extent, err error) {
	err = o.sp.caught(ctx, func(from fetch) (bool, error) {
		list, err = o.load(ctx, from, pos, limit)
		return len(list) > 0 || pos >= o.end.Load(), err
	})
	return list, err
}

func (o *output) load(ctx context.Context, from fetch, pos int64, limit int) (list []partials.Extent, err error) {
	o.next.Lock()
	sequence := o.next.sequence
	if o.next.start != pos {
		sequence = 0
	}
	o.next.Unlock()
	if sequence == 0 && pos > 0 {
		if sequence, err = o.seek(ctx, from, pos); err != nil {
			return nil, err
		}
	}
	for len(list) == 0 { // what is damaged is passed over
		messages, err := from(ctx, sequence, o.sp.subject(o.id, "log.*"), loadMessages, limit)
		if err != nil || len(messages) == 0 {
			return nil, err
		}
		list = o.extents(messages, pos)
		sequence = messages[len(messages)-1].Sequence + 1
	}
	return list, nil
}

// extents are the stretches that go on after pos, up to a gap.
func (o *output) extents(messages []*jetstream.RawStreamMsg, pos int64) (list []partials.Extent) {
	for _, m := range messages {
		e, err := extent(m)
		if n := len(list); err == nil && n > 0 && e.Start < list[n-1].End() {
			err = errors.New("it overlaps what is before it")
		}
		if err != nil {
			o.sp.s.o.Log.Error().Str("taskId", o.id).Err(err).Msg("the state is damaged: a part of the output cannot be read")
			continue // it counts as no longer kept
		}
		if n := len(list); n > 0 && list[n-1].End() != e.Start {
			break // a gap: the rest is read by itself
		}
		if e.End() <= pos {
			continue
		}
		list = append(list, e)
		o.next.Lock()
		o.next.place = place{e.End(), m.Sequence + 1}
		o.next.Unlock()
	}
	return list
}

// seek finds the stretch that holds a position, or else the next one, by its sequence number: they rise as positions do.
func (o *output) seek(ctx context.Context, from fetch, pos int64) (uint64, error) {
	last, err := o.sp.newest(ctx, o.sp.subject(o.id, "log.*"))
	if err != nil || last == nil {
		return 0, err
	}
	low, high, found := uint64(1), last.Sequence, uint64(0)
	for low <= high {
		middle := low + (high-low)/2
		m, err := from(ctx, middle, o.sp.subject(o.id, "log.*"), 1, 1)
		if err != nil {
			return 0, err
		}
		if len(m) == 0 || m[0].Sequence > high {
			high = middle - 1
			continue
		}
		if e, err := extent(m[0]); err != nil || e.End() > pos { // a damaged one may stand before or after it
			found, high = m[0].Sequence, middle-1
		} else {
			low = m[0].Sequence + 1
		}
	}
	if found == 0 {
		found = low
	}
	return found, nil
}

// extent reads a stretch, and checks that it is one that runnel could have written.
func extent(m *jetstream.RawStreamMsg) (e partials.Extent, err error) {
	if e.Start, err = number(m, startHeader); err != nil {
		return e, err
	}
	if e.Marks, err = base64.StdEncoding.DecodeString(m.Header.Get(marksHeader)); err != nil {
		return e, err
	}
	e.Data = m.Data
	return e, e.Check()
}

func number(m *jetstream.RawStreamMsg, header string) (int64, error) {
	n, err := strconv.ParseInt(m.Header.Get(header), 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("the header %s of message %d cannot be read", header, m.Sequence)
	}
	return n, nil
}
