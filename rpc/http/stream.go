package httpserver

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

const (
	// maxWaiting is how many bytes of lines may wait for a connection: a writer takes about 64 KiB at once.
	maxWaiting = 256 << 10
	// maxKept is how many bytes of sent events a stream keeps for a client that loses its connection: more
	// than is usually under way.
	maxKept = 1 << 20
	// maxKeptMarked is the same for a stream that can also be continued after a mark: enough for what is
	// under way on most connections.
	maxKeptMarked = 64 << 10
	// maxKeptInAll limits the bytes that all streams hold, waiting ones included. Above it, a stream with a
	// connection keeps only the last event that was sent, and fewer bytes may wait for it; streams that have
	// lost their connection, or are finished, are forgotten.
	maxKeptInAll = 64 << 20
	// maxBatch is the size from which on no further events are sent at once.
	maxBatch = 64 << 10
	// moveGrace is how long a client that has lost its connection may take to resume the stream before
	// another one gets what follows: twice what retry says.
	moveGrace = 2 * time.Second
	// closesSoon is how soon after a task's handle a connection ends if the client wanted nothing else: the
	// SDKs close it when they have read their response.
	closesSoon = 5 * time.Second
)

var (
	errTakenOver = errors.New("another connection has taken over the stream")
	errForgotten = errors.New("the events after that one are not kept any more")
	errMoved     = errors.New("the stream's events go to another one")
)

// stream is the answer to a line, in order: an [rpc.Output]. One connection at a time sends its events.
type stream struct {
	name     string // unique in its session; begins the ids of its events
	standing bool   // its lines answer no request, and it can only be continued here
	// Called when a task's question or its withdrawal may wait for a connection; nil: there are none.
	asks func()

	mu      sync.Mutex
	inAll   *atomic.Int64 // bytes that all streams hold; nil: this one keeps nothing
	events  []numbered    // first the sent ones that are kept, then those that wait
	before  string        // the mark from before the first event, on another stream
	mark    string        // of the last event
	first   int           // the number of events[0]; the first one ever is 1
	sent    int           // the number of the last sent event
	held    int           // bytes of the events
	kept    int           // bytes of the sent ones
	over    bool          // no more events come
	turn    int           // which connection sends
	handed  time.Time     // when the first event came, if it is a task's handle
	read    bool          // a connection sends
	left    time.Time     // when the last connection stopped sending
	onward  *stream       // takes what comes next; nil: this one does
	abandon func()        // ends the exchange that fills the stream; nil while a connection sends
	cutOff  bool          // abandon was called: the rest is on another stream, after the mark
	changed chan struct{} // nil: nobody waits for a change
}

// numbered is an event; its number is its place in the stream.
type numbered struct {
	text []byte
	mark string // how another process can continue after it (see rpc.Session.Resume); "" = it cannot
}

func (n *numbered) size() int { return len(n.text) + len(n.mark) }

func newStream(name string, inAll *atomic.Int64) *stream {
	return &stream{name: name, inAll: inAll, first: 1}
}

// WriteLines implements rpc.Output: it waits for room.
func (s *stream) WriteLines(ctx context.Context, lines []byte, last bool) error {
	if len(lines) == 0 {
		s.finish()
	}
	for len(lines) > 0 {
		line, rest, _ := bytes.Cut(lines, []byte("\n"))
		err := s.add(ctx, line, last && len(rest) == 0)
		if err == errMoved {
			err = s.onward.add(ctx, line, false)
		}
		if err != nil {
			return err
		}
		if s.asks != nil && bytes.Contains(line, []byte(mcp.MetaRelatedTask)) {
			s.asks()
		}
		lines = rest
	}
	return nil
}

func (s *stream) add(ctx context.Context, line []byte, last bool) error {
	// A carriage return would end a line of an event. In JSON it is a blank like any other.
	line = bytes.ReplaceAll(line, []byte("\r"), []byte(" "))
	mark, line := rpc.CutMark(line)
	s.mu.Lock()
	defer s.mu.Unlock()
	if mark == "" || s.standing { // a line without a mark does not change where to continue
		mark = s.mark
	}
	if last && !resumable(mark) { // the answer has come
		mark = ""
	}
	event := numbered{line, mark}
	for waiting := s.held - s.kept; s.onward == nil && waiting > 0 &&
		waiting+event.size() > s.room(); waiting = s.held - s.kept {
		// The tool need not wait for a client that may never come back.
		if s.abandon != nil && resumable(s.mark) {
			s.cutOff = true
			s.abandon()
		}
		if err := s.await(ctx); err != nil {
			return err
		}
	}
	if s.onward != nil {
		return errMoved
	}
	if s.first == 1 && len(s.events) == 0 && isHandle(line) {
		s.handed = time.Now()
	}
	s.mark = mark
	s.events = append(s.events, event)
	s.count(event.size())
	s.over = last
	s.change()
	return nil
}

// finish marks the end: no more events come.
func (s *stream) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	s.change()
}

// change wakes whoever waits for a change. mu is held.
func (s *stream) change() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// begin lets a connection send the events that were not sent yet.
func (s *stream) begin() *sender {
	from, _ := s.connect(-1)
	return from
}

// connect lets a connection send the events after a number; the connection before gets errTakenOver.
func (s *stream) connect(after int) (*sender, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if after < 0 {
		after = s.sent
	}
	end := s.first - 1 + len(s.events)
	if after < s.first-1 || after > end || after == end && s.cutOff {
		return nil, errForgotten
	}
	// A client may be back before its connection has noted what it sent, or may have lost some of that.
	s.markSent(after)
	s.turn++
	s.read, s.abandon = true, nil
	s.change()
	return &sender{s, s.turn, after}, nil
}

// sender is a connection's claim on a stream.
type sender struct {
	*stream
	turn int
	last int // the number of the last event that it has sent
}

// next waits for events and returns up to about 64 KiB of them, and whether the stream ends with them.
func (s *sender) next(ctx context.Context) (events []numbered, over bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.turn != s.stream.turn:
			return nil, false, errTakenOver
		case s.cutOff && s.last == s.first-1+len(s.events):
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

// leave notes that no connection sends any more. When the stream is full, abandon is called if another stream
// can continue after it.
func (s *sender) leave(abandon func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn == s.stream.turn {
		s.read = false
		s.left = time.Now()
		s.abandon = abandon
		s.change()
	}
}

// isCutOff reports whether the rest is on another stream.
func (s *sender) isCutOff() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cutOff
}

// await waits for a change, or fails with ctx's cause. s.mu is held before and after, but not meanwhile.
func (s *stream) await(ctx context.Context) error {
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	changed := s.changed
	s.mu.Unlock()
	defer s.mu.Lock()
	select {
	case <-changed:
	case <-ctx.Done():
	}
	return context.Cause(ctx)
}

// hasAsked reports whether a stream without a connection has asked about a task, as far as it keeps that.
func (s *stream) hasAsked(task string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.read && slices.ContainsFunc(s.events, func(n numbered) bool { return asks(n.text, task) })
}

// takeAsked removes and returns what waits in a stream without a connection, and asks about a task. Numbers
// that were not sent mean nothing to the client, so those of later events may change.
func (s *stream) takeAsked(task string) (asked []numbered) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.read {
		return nil
	}
	waiting := s.events[s.sent-s.first+1:]
	rest := slices.DeleteFunc(slices.Clone(waiting), func(n numbered) bool {
		if !asks(n.text, task) {
			return false
		}
		asked = append(asked, numbered{text: n.text})
		s.count(-n.size())
		return true
	})
	s.events = append(s.events[:s.sent-s.first+1], rest...)
	return asked
}

// put adds events of another stream.
func (s *stream) put(events []numbered) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, event := range events {
		event.mark = s.mark
		s.events = append(s.events, event)
		s.count(event.size())
	}
	s.change()
}

// hasLeft reports whether the client has closed the connection after a task's handle, and had time to come
// back.
func (s *stream) hasLeft() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.handed.IsZero() && s.sent > 0 && !s.read && time.Since(s.left) >= moveGrace
}

// moveTo moves what a client has not read after the handle, and what comes next, to another stream. A client
// that has closed the connection soon after the handle has read nothing else, whatever was sent.
func (s *stream) moveTo(other *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	after := s.sent
	if s.left.Sub(s.handed) < closesSoon {
		after = max(1, s.first-1)
	}
	other.put(s.events[after+1-s.first:])
	s.onward = other
	s.change()
}

// isHandle reports whether a line answers a call with a task, and with nothing of its output.
func isHandle(line []byte) bool {
	result := rawjson.Member(line, "result")
	return rawjson.Member(result, "task") != nil && rawjson.Member(result, "partial-content") == nil
}

// isRead reports whether a connection sends.
func (s *stream) isRead() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.read && !s.over
}

// asks reports whether a line is a request about a task, or withdraws one.
func asks(line []byte, task string) bool {
	if !bytes.Contains(line, []byte(task)) {
		return false
	}
	related := rawjson.Member(rawjson.Member(rawjson.Member(line, "params"), "_meta"), mcp.MetaRelatedTask)
	method := rawjson.StringMember(line, "method")
	return rawjson.StringMember(related, "taskId") == task &&
		(method == "notifications/cancelled" || method != "" && rawjson.Member(line, "id") != nil)
}

// sentMore notes that n more events were sent.
func (s *sender) sentMore(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last += n
	if s.turn == s.stream.turn {
		s.markSent(s.last)
	}
}

// markSent notes that all events up to last were sent, and drops those that need not be kept. mu is held.
func (s *stream) markSent(last int) {
	for ; s.sent < last; s.sent++ {
		s.kept += s.events[s.sent+1-s.first].size()
	}
	for ; s.sent > last; s.sent-- {
		s.kept -= s.events[s.sent-s.first].size()
	}
	most := maxKept
	if resumable(s.mark) {
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

// count counts held bytes. mu is held.
func (s *stream) count(size int) {
	s.held += size
	if s.inAll != nil {
		s.inAll.Add(int64(size))
	}
}

// room returns how many bytes may wait.
func (s *stream) room() int {
	if s.crowded() {
		return maxBatch
	}
	return maxWaiting
}

// crowded reports whether all streams together hold too much.
func (s *stream) crowded() bool { return s.inAll != nil && s.inAll.Load() > maxKeptInAll }

// drop stops counting the events: the stream can no longer be resumed.
func (s *stream) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count(-s.held)
	s.inAll = nil
}

// current reports whether no other connection has taken over.
func (s *sender) current() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.turn == s.stream.turn
}
