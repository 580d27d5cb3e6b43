package httpserver

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"runnel/rpc"
)

const (
	// maxWaiting is how many bytes of lines wait for a connection: a writer takes 64 KiB or so at once.
	maxWaiting = 256 << 10
	// maxKept is how many bytes of events that were sent a stream keeps for who lost the connection: more than is under way on a usual one.
	maxKept = 1 << 20
	// maxKeptMarked is how many those are of a stream that can be gone on with otherwise: what is under way on most.
	maxKeptMarked = 64 << 10
	// maxKeptInAll is how many bytes all streams hold, with what waits. Above it those that have a connection keep the last event that was
	// sent, and less waits for them; those that have lost it, or are over, are forgotten.
	maxKeptInAll = 64 << 20
	// maxBatch is from where on no more events are sent at once.
	maxBatch = 64 << 10
)

var (
	errTakenOver = errors.New("another connection has taken over the stream")
	errForgotten = errors.New("the events after that one are not kept any more")
)

// stream is what answers a line, in order: an [rpc.Output]. One connection at a time sends its events.
type stream struct {
	name     string // unique in its session; begins the ids of its events
	standing bool   // it answers nothing, and nobody can go on with it but here

	mu      sync.Mutex
	inAll   *atomic.Int64 // bytes that all streams hold; nil: this one keeps nothing
	events  []numbered    // those that were sent and are kept, then those that wait
	before  string        // the mark of what came before the first event, on another stream
	mark    string        // of the last event
	first   int           // the number of events[0]; the first one ever is 1
	sent    int           // the number of the last one that was sent
	kept    int           // bytes of those that were sent
	waiting int           // bytes of the others
	over    bool          // no more come
	turn    int           // which connection sends
	changed chan struct{}
}

// numbered is an event, whose number is its place in the stream.
type numbered struct {
	text []byte
	mark string // how another process can go on after it (see rpc.Session.Resume); "" = it cannot
}

func (n *numbered) size() int { return len(n.text) + len(n.mark) }

func newStream(name string, inAll *atomic.Int64) *stream {
	return &stream{name: name, inAll: inAll, first: 1, changed: make(chan struct{})}
}

// WriteLines implements rpc.Output: it waits for room.
func (s *stream) WriteLines(ctx context.Context, lines []byte, last bool) error {
	if len(lines) == 0 {
		s.finish()
	}
	for len(lines) > 0 {
		line, rest, _ := bytes.Cut(lines, []byte("\n"))
		if err := s.add(ctx, line, last && len(rest) == 0); err != nil {
			return err
		}
		lines = rest
	}
	return nil
}

func (s *stream) add(ctx context.Context, line []byte, last bool) error {
	// A carriage return ends a line of an event. In JSON it is a blank like any other.
	line = bytes.ReplaceAll(line, []byte("\r"), []byte(" "))
	mark, line := rpc.CutMark(line)
	s.mu.Lock()
	defer s.mu.Unlock()
	if mark == "" || s.standing { // a line without one changes nothing for who goes on after it
		mark = s.mark
	}
	event := numbered{line, mark}
	for s.waiting > 0 && s.waiting+event.size() > s.room() {
		if err := s.await(ctx); err != nil {
			return err
		}
	}
	s.mark = mark
	s.events = append(s.events, event)
	s.waiting += event.size()
	s.count(event.size())
	s.over = last
	s.change()
	return nil
}

// finish says that no more events come.
func (s *stream) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	s.change()
}

// change wakes whoever waits for a change. mu is held.
func (s *stream) change() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// begin lets a connection send the events that were not sent yet.
func (s *stream) begin() *sender {
	from, _ := s.connect(-1)
	return from
}

// connect lets a connection send the events after a number; the one before it is told errTakenOver.
func (s *stream) connect(after int) (*sender, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if after < 0 {
		after = s.sent
	}
	if after < s.first-1 || after > s.first-1+len(s.events) {
		return nil, errForgotten
	}
	s.markSent(after) // a client may be back before its connection has noted what it sent
	s.turn++
	s.change()
	return &sender{s, s.turn, after}, nil
}

// sender is a connection's hold on a stream.
type sender struct {
	*stream
	turn int
	last int // the number of the last event that it has sent
}

// next waits for events, and returns those that wait, 64 KiB or so, and whether the stream is over with them.
func (s *sender) next(ctx context.Context) (events []numbered, over bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.turn != s.stream.turn:
			return nil, false, errTakenOver
		case s.last < s.first-1:
			return nil, false, errForgotten
		}
		waiting := s.events[s.last-s.first+1:]
		if len(waiting) > 0 || s.over {
			n, size := 0, 0
			for n < len(waiting) && size < maxBatch {
				size += len(waiting[n].text)
				n++
			}
			return slices.Clone(waiting[:n]), s.over && n == len(waiting), nil
		}
		if err := s.await(ctx); err != nil {
			return nil, false, err
		}
	}
}

// await waits for a change, or fails with ctx's cause. s.mu is held before and after, and not meanwhile.
func (s *stream) await(ctx context.Context) error {
	changed := s.changed
	s.mu.Unlock()
	defer s.mu.Lock()
	select {
	case <-changed:
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}

// sentMore notes that so many more events were sent.
func (s *sender) sentMore(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last += n
	if s.turn == s.stream.turn {
		s.markSent(s.last)
	}
}

// markSent notes that all up to an event were sent, and drops those that are not to be kept. mu is held.
func (s *stream) markSent(last int) {
	for s.sent < last {
		s.sent++
		size := s.events[s.sent-s.first].size()
		s.waiting -= size
		s.kept += size
	}
	most := maxKept
	if s.mark != "" {
		most = maxKeptMarked
	}
	for s.first < s.sent && (s.kept > most || s.crowded()) || s.first <= s.sent && s.inAll == nil {
		size := s.events[0].size()
		s.kept -= size
		s.count(-size)
		s.events[0] = numbered{}
		s.events = s.events[1:]
		s.first++
	}
	s.change()
}

// count counts bytes that are held. mu is held.
func (s *stream) count(size int) {
	if s.inAll != nil {
		s.inAll.Add(int64(size))
	}
}

// room is how many bytes may wait.
func (s *stream) room() int {
	if s.crowded() {
		return maxBatch
	}
	return maxWaiting
}

// crowded reports whether all streams together hold too much.
func (s *stream) crowded() bool { return s.inAll != nil && s.inAll.Load() > maxKeptInAll }

// drop forgets all events: nobody can resume any more.
func (s *stream) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count(-s.kept - s.waiting)
	s.inAll = nil
}

// current reports whether no other connection has taken over.
func (s *sender) current() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.turn == s.stream.turn
}
