package nats

import (
	"context"
	"encoding/base64"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go/jetstream"

	"runnel/partials"
	"runnel/tasks/engine"
)

// The headers of an extent of output, and of numbers of segments.
const (
	startHeader = "Runnel-Start" // the position of its first byte
	marksHeader = "Runnel-Marks" // partials.Extent.Marks, in base64
	firstHeader = "Runnel-First" // the first number
)

// output is what is stored of a task's output.
type output struct {
	sp  *space
	id  string
	end func() int64 // where the acknowledged output ends
}

// Output implements engine.Driver.
func (sp *space) Output(id string, end func() int64) engine.Output {
	return &output{sp: sp, id: id, end: end}
}

const loadMessages = 256

// Load implements engine.Output.
func (o *output) Load(ctx context.Context, pos int64, limit int) (list []partials.Extent, err error) {
	err = o.sp.caught(ctx, func(from fetch) (bool, error) {
		list, err = o.load(ctx, from, pos, limit)
		return follow(list, pos) || pos >= o.end(), err
	})
	return list, err
}

// follow reports whether extents begin at a position or before it. Others may follow a cut, or what a replica
// lacks: the leader knows.
func follow(list []partials.Extent, pos int64) bool { return len(list) > 0 && list[0].Start <= pos }

func (o *output) load(ctx context.Context, from fetch, pos int64,
	limit int) (list []partials.Extent, err error) {
	subject := o.sp.subject(o.id, "log.*")
	sequence := o.sp.places.at(subject, pos)
	if sequence == 0 && pos > 0 {
		if sequence, err = o.sp.seek(ctx, subject, pos, startOf); err != nil {
			return nil, err
		}
	}
	all := o.sp.Extents(o.id, pos)
	var end place
	for len(all.List) == 0 { // damaged messages are skipped
		messages, err := from(ctx, sequence, subject, loadMessages, limit)
		if err != nil || len(messages) == 0 {
			return nil, err
		}
		for _, m := range messages {
			if e, err := extent(m); all.Add(e, err) {
				end = place{e.End(), m.Sequence + 1}
			}
		}
		if end.sequence > 0 {
			o.sp.places.note(subject, end)
		}
		sequence = messages[len(messages)-1].Sequence + 1
	}
	return all.List, nil
}

// seek finds the last message of a subject that begins at a place or before it, by its sequence number: they
// rise as places do. It is 0 if there is none. The leader alone is asked: of so many requests to replicas one
// that is cut off would get its share.
func (sp *space) seek(ctx context.Context, subject string, place int64,
	begins func(m *jetstream.RawStreamMsg) (int64, error)) (found uint64, err error) {
	last, err := sp.newest(ctx, subject)
	if err != nil || last == nil {
		return 0, err
	}
	if begin, err := begins(last); err == nil && begin <= place { // as for who follows
		return last.Sequence, nil
	}
	for low, high := uint64(1), last.Sequence-1; low <= high; {
		middle := low + (high-low)/2
		m, err := sp.fromLeader(ctx, middle, subject, 1, 1)
		if err != nil {
			return 0, err
		}
		if len(m) == 0 || m[0].Sequence > high {
			high = middle - 1
		} else if begin, err := begins(m[0]); err != nil || begin > place {
			// A damaged one may stand before or after it.
			high = middle - 1
		} else {
			found, low = m[0].Sequence, m[0].Sequence+1
		}
	}
	return found, nil
}

// startOf returns where an extent begins.
func startOf(m *jetstream.RawStreamMsg) (int64, error) {
	e, err := extent(m)
	if err == nil {
		err = e.Check()
	}
	return e.Start, err
}

// firstOf returns the first of some numbers of segments.
func firstOf(m *jetstream.RawStreamMsg) (int64, error) { return number(m, firstHeader) }

// extent makes an extent of a message.
func extent(m *jetstream.RawStreamMsg) (e partials.Extent, err error) {
	if e.Start, err = number(m, startHeader); err != nil {
		return e, err
	}
	if e.Marks, err = base64.StdEncoding.DecodeString(m.Header.Get(marksHeader)); err != nil {
		return e, err
	}
	e.Data = m.Data
	return e, nil
}

func number(m *jetstream.RawStreamMsg, header string) (int64, error) {
	n, err := strconv.ParseInt(m.Header.Get(header), 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("the header %s of message %d cannot be read", header, m.Sequence)
	}
	return n, nil
}

// Ends implements engine.Driver.
func (sp *space) Ends(ctx context.Context, r *engine.Record, n int, last int64) ([]int64, error) {
	var numbers partials.Numbers
	look := func(from fetch) (bool, error) {
		numbers = r.Numbers(n, last)
		err := sp.readNumbers(ctx, r.ID, from, &numbers)
		return numbers.Complete(), err
	}
	var err error
	if r.Measured { // a replica that lags would let numbers be given twice
		_, err = look(sp.fromLeader)
	} else {
		err = sp.caught(ctx, look)
	}
	if err != nil {
		return nil, err
	}
	return numbers.Ends()
}

// readNumbers adds the numbers of a task that from finds.
func (sp *space) readNumbers(ctx context.Context, id string, from fetch,
	numbers *partials.Numbers) (err error) {
	const some = 256
	subject := sp.subject(id, "ends")
	next := sp.places.at(subject, numbers.Next())
	if next == 0 && numbers.After > 0 {
		if next, err = sp.seek(ctx, subject, numbers.Next(), firstOf); err != nil {
			return err
		}
	}
	for numbers.Last != numbers.End { // otherwise none can follow
		messages, err := from(ctx, next, subject, some, 1<<20)
		if err != nil || len(messages) == 0 {
			return err
		}
		for _, m := range messages {
			first, err := firstOf(m)
			if err != nil {
				return partials.ErrEnds
			}
			if more, err := numbers.Add(first, m.Data); err != nil || !more {
				return err
			}
			next = m.Sequence + 1
			sp.places.note(subject, place{numbers.Next(), next})
		}
	}
	return nil
}
