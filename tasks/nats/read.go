package nats

import (
	"bytes"
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/nats-io/nats.go/jetstream"

	"runnel/tasks"
	"runnel/tasks/engine"
)

// decode makes a record of a message.
func (sp *space) decode(id string, m *jetstream.RawStreamMsg) *engine.Record {
	r := &engine.Record{Revision: m.Sequence}
	r.ID, r.Owner = id, sp.Owner
	r.Decode(m.Data, m.Time)
	r.Check(r.Stored.Variables, r.Stored.Pieces > 0)
	return r
}

// sealHeader, on variables, is the revision of the record whose task is about to end with them.
const sealHeader = "Runnel-Sealed"

// Read implements engine.Driver.
func (sp *space) Read(ctx context.Context, id string) (*engine.Record, error) {
	var m, variables *jetstream.RawStreamMsg
	err := together(
		func() (err error) { m, err = sp.newest(ctx, sp.subject(id, "task")); return err },
		func() (err error) { variables, err = sp.newest(ctx, sp.subject(id, "variables")); return err },
	)
	if err != nil {
		return nil, err
	}
	if m == nil {
		return nil, tasks.ErrNotFound
	}
	r := sp.decode(id, m)
	if variables != nil && !r.Terminal() {
		r.Seen, r.SeenData = variables.Sequence, variables.Data
		r.Sealed = variables.Header.Get(sealHeader) == strconv.FormatUint(r.Revision, 10)
		r.SetVariables(variables.Data)
	}
	return r, nil
}

// mostAhead is how much output Extent reads.
const mostAhead = 512 << 10

// Extent implements engine.Driver. If it is known where the caller's output ends among the messages, what
// follows it is read, and otherwise the last message.
func (sp *space) Extent(ctx context.Context, r *engine.Record, after int64) error {
	if r.Terminal() {
		return nil
	}
	subject := sp.subject(r.ID, "log.*")
	sequence := sp.places.at(subject, after)
	if sequence == 0 {
		last, err := sp.newest(ctx, subject)
		if err != nil {
			return err
		}
		end, err := sp.endAt(ctx, subject, last)
		if r.End = max(r.End, end); err != nil {
			return err
		}
		if last == nil {
			sp.places.note(subject, place{0, r.Revision + 1}) // what comes stands behind this record
		} else if end > 0 {
			sp.places.note(subject, place{end, last.Sequence + 1})
		}
		return nil
	}
	return sp.caught(ctx, func(from fetch) (bool, error) {
		messages, err := from(ctx, sequence, subject, loadMessages, mostAhead)
		if err != nil {
			return false, err
		}
		all, size := sp.Extents(r.ID, after), 0
		end, next := after, sequence
		for _, m := range messages {
			size += len(m.Data)
			if e, err := extent(m); all.Add(e, err) {
				end, next = e.End(), m.Sequence+1
			}
		}
		if end > after {
			sp.places.note(subject, place{end, next})
		}
		found := follow(all.List, after) || len(all.List) == 0 && end >= r.End
		r.Ahead, r.End = all.List, max(end, r.End)
		r.Partly = size >= mostAhead || len(messages) == loadMessages
		return found, nil
	})
}

// endOf is where an extent ends, 0 if it cannot be read.
func endOf(m *jetstream.RawStreamMsg) int64 {
	if m == nil {
		return 0
	}
	e, err := extent(m)
	if err != nil || e.Check() != nil {
		return 0
	}
	return e.End()
}

// endAt returns where the output of a subject ends whose last message is given. If that is damaged, the last
// one before it counts.
func (sp *space) endAt(ctx context.Context, subject string, last *jetstream.RawStreamMsg) (int64, error) {
	if end := endOf(last); last == nil || end > 0 {
		return end, nil
	}
	sequence, err := sp.seek(ctx, subject, math.MaxInt64, startOf)
	if err != nil || sequence == 0 {
		return 0, err
	}
	found, err := sp.fromLeader(ctx, sequence, subject, 1, 1)
	if err != nil || len(found) == 0 {
		return 0, err
	}
	return endOf(found[0]), nil
}

// Measure implements engine.Driver. The replica that Read has asked may lag.
func (sp *space) Measure(ctx context.Context, r *engine.Record) error {
	last, err := sp.newest(ctx, sp.subject(r.ID, "log.*"))
	if err != nil {
		return err
	}
	end, err := sp.endAt(ctx, sp.subject(r.ID, "log.*"), last)
	if err != nil {
		return err
	}
	r.End, r.Measured = max(r.End, end), true
	if last == nil || last.Subject == sp.subject(r.ID, "log.head") {
		return nil
	}
	head, err := sp.newest(ctx, sp.subject(r.ID, "log.head"))
	r.Head = endOf(head)
	return err
}

// Place implements engine.Driver.
func (sp *space) Place(ctx context.Context, id string) (uint64, error) {
	made, err := sp.newest(ctx, sp.subject(id, "made"))
	if made == nil {
		return 0, cmp.Or(err, tasks.ErrCursor)
	}
	return made.Sequence, err
}

// madeAfter returns what says of up to n tasks that they were made, after a place.
func (sp *space) madeAfter(ctx context.Context, after uint64, n int) ([]*jetstream.RawStreamMsg, error) {
	if after > sp.stream.CachedInfo().State.LastSeq {
		fresh, err := sp.c.js.Stream(ctx, sp.name)
		if err != nil {
			return nil, unreachable(err)
		}
		if after > fresh.CachedInfo().State.LastSeq {
			return nil, tasks.ErrCursor
		}
	}
	var made []*jetstream.RawStreamMsg
	err := sp.caught(ctx, func(from fetch) (_ bool, err error) {
		made, err = from(ctx, after+1, sp.subject("*", "made"), n, maxMessage)
		if err != nil || len(made) >= n {
			return true, err
		}
		last := after // the leader knows whether more follow
		if len(made) > 0 {
			last = made[len(made)-1].Sequence
		}
		rest, err := sp.fromLeader(ctx, last+1, sp.subject("*", "made"), 1, 1)
		return len(rest) == 0, err
	})
	return made, err
}

// firstWindow is how many messages of the stream madeBefore looks through for each task that it wants.
const firstWindow = 8

// madeBefore is madeAfter backwards: before a place, or from the last one. A stream can only be read
// forwards, so it looks through a part of it that ends at the place, then through one before that which is
// twice as long.
func (sp *space) madeBefore(ctx context.Context, before uint64,
	n int) (made []*jetstream.RawStreamMsg, err error) {
	if before == 0 {
		fresh, err := sp.c.js.Stream(ctx, sp.name)
		if err != nil {
			return nil, unreachable(err)
		}
		before = fresh.CachedInfo().State.LastSeq + 1
	}
	for size := uint64(firstWindow * n); len(made) < n && before > 1; size *= 2 {
		start := max(before, size+1) - size
		var part []*jetstream.RawStreamMsg
		for next := start; next < before; {
			some, err := sp.madeAfter(ctx, next-1, n)
			if err != nil {
				return nil, err
			}
			if next = before; len(some) == n {
				next = some[n-1].Sequence + 1
			}
			part = append(part, slices.DeleteFunc(some,
				func(m *jetstream.RawStreamMsg) bool { return m.Sequence >= before })...)
		}
		slices.Reverse(part)
		made, before = append(made, part...), start
	}
	return made[:min(n, len(made))], nil
}

// List implements engine.Driver. A task's place is that of its subject made.
func (sp *space) List(ctx context.Context, d tasks.Direction, from uint64, n int) ([]engine.Place, error) {
	listed := sp.madeAfter
	if d == tasks.NewestFirst {
		listed = sp.madeBefore
	}
	made, err := listed(ctx, from, n)
	if err != nil {
		return nil, err
	}
	places, subjects := make([]engine.Place, len(made)), make([]string, len(made))
	for i, m := range made {
		places[i].Number, subjects[i] = m.Sequence, strings.TrimSuffix(m.Subject, "made")+"task"
	}
	found, err := sp.records(ctx, subjects)
	for i, subject := range subjects {
		if places[i].Record = found[subject]; places[i].Record != nil || err != nil {
			continue
		}
		var m *jetstream.RawStreamMsg // a replica may lack it
		if m, err = sp.newest(ctx, subject); m != nil {
			places[i].Record = sp.decode(sp.idOf(subject), m)
		}
	}
	return places, err
}

// mostSubjects is how many subjects the server takes in one request.
const mostSubjects = 1000

// records reads records by their subjects.
func (sp *space) records(ctx context.Context, subjects []string) (map[string]*engine.Record, error) {
	found := map[string]*engine.Record{}
	for len(subjects) > 0 {
		some := subjects[:min(len(subjects), mostSubjects)]
		subjects = subjects[len(some):]
		messages, err := sp.lastOf(ctx, sp.name, some...)
		if err != nil {
			return nil, err
		}
		for _, m := range messages {
			found[m.Subject] = sp.decode(sp.idOf(m.Subject), m)
		}
	}
	return found, nil
}

// idOf returns the id of the task that a subject is of.
func (sp *space) idOf(subject string) string {
	id, _, _ := strings.Cut(strings.TrimPrefix(subject, sp.root), ".")
	return id
}

// pieceBytes is how much of an outcome is one message.
const pieceBytes = 512 << 10

// Outcome implements engine.Driver.
func (sp *space) Outcome(ctx context.Context, r *engine.Record) ([]byte, error) {
	var all bytes.Buffer
	subject := sp.subject(r.ID, "result."+r.Stored.Attempt)
	next := uint64(1)
	n := 0
	for n < r.Stored.Pieces {
		var messages []*jetstream.RawStreamMsg
		err := sp.caught(ctx, func(from fetch) (_ bool, err error) {
			messages, err = from(ctx, next, subject, r.Stored.Pieces-n, 4*pieceBytes)
			return len(messages) > 0, err
		})
		if err != nil {
			return nil, err
		}
		if len(messages) == 0 {
			return nil, engine.Damage("a part of its result is missing")
		}
		for _, m := range messages {
			all.Write(m.Data)
			next = m.Sequence + 1
			n++
		}
	}
	return all.Bytes(), nil
}

// Fetched implements engine.Driver.
func (sp *space) Fetched(ctx context.Context, _ []string) (map[string]bool, error) {
	subjects, err := sp.subjects(ctx, sp.name, sp.subject("*", "fetched"))
	fetched := map[string]bool{}
	for _, subject := range subjects {
		fetched[sp.idOf(subject)] = true
	}
	return fetched, err
}

// places are where reads of subjects have ended, so that who follows a task goes on from there: to find a
// place among the messages of many tasks takes a request for each halving of the stream.
type places struct {
	mu   sync.Mutex
	next map[string][]place // by subject, the latest last; few of each
}

// place is where the next message of a subject begins, and the lowest sequence number that it can have.
type place struct {
	begins   int64
	sequence uint64
}

const (
	// mostPlaces is of how many subjects places are kept, of some 150 bytes each. Without its place a read
	// finds it again.
	mostPlaces = 10_000
	// placesEach is how many are kept of a subject: of a reader that is so many writes behind, too.
	placesEach = 32
)

// at returns the sequence number to read from for what begins at a place, 0 if none is known that is near.
func (p *places) at(subject string, begins int64) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	best := place{begins: begins - mostAhead - 1} // to read what lies between costs less than to seek
	for _, next := range p.next[subject] {
		if next.begins <= begins && next.begins > best.begins {
			best = next
		}
	}
	return best.sequence
}

// clear forgets all places.
func (p *places) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = nil
}

// note notes where a read has ended.
func (p *places) note(subject string, next place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	list, known := p.next[subject]
	if p.next == nil || !known && len(p.next) >= mostPlaces {
		p.next = map[string][]place{}
	}
	list = slices.DeleteFunc(list, func(other place) bool { return other.begins == next.begins })
	if len(list) == placesEach {
		list = slices.Delete(list, 0, 1)
	}
	p.next[subject] = append(list, next)
}
