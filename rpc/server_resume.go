package rpc

import (
	"bytes"
	"context"
	"errors"
)

// A carrier may lose a connection in the middle of a stream, and this process may not be the one that began the stream. Whoever keeps
// what it streams says with its lines how to go on after each of them, by a mark: text before the line's message. The carrier cuts it
// off (CutMark), gives it to the client in a way of its own, and brings it back ([Session.Resume]).

// ErrNoStream is why nobody can ever go on after a mark.
var ErrNoStream = errors.New("the mark stands for nothing to go on with")

// HandleResume registers who goes on with streams. f finds what a mark stands for, or says why it cannot: by ErrNoStream if it never will. begin must not wait: it
// calls Caller.Hold, and writes the rest of the stream in a goroutine of its own, until its context ends: nobody takes it any more then.
// A mark comes from the client, and nothing in it can be trusted.
func (s *Server) HandleResume(f func(ctx context.Context, mark string) (begin func(open context.Context, c *Caller), err error)) {
	s.resume = f
}

// Resumes reports whether streams can be gone on with by their marks.
func (s *Server) Resumes() bool { return s.resume != nil }

// Marks reports whether lines for this caller may begin with a mark, which must have no '{' and no '['.
func (c *Caller) Marks() bool {
	return c.session.in == nil && c.Era == Handshake && c.session.srv.Resumes()
}

// Marked is the caller whose lines, other than its response, begin with a mark.
func (c *Caller) Marked(mark string) *Caller {
	marked := *c
	marked.head = append([]byte(mark), c.head...)
	return &marked
}

// CutMark takes the mark, "" if there is none, off a line of a [Session] whose callers have marks.
func CutMark(line []byte) (mark string, message []byte) {
	if i := bytes.IndexAny(line, "{["); i > 0 {
		return string(line[:i]), line[i:]
	}
	return "", line
}

// Resume gives out the rest of a stream that was lost after a line with a mark. initialize must have been taken before.
func (c *Session) Resume(ctx context.Context, mark string, out Output) (*Exchange, error) {
	if !c.srv.Resumes() {
		return nil, ErrClosed
	}
	begin, err := c.srv.resume(ctx, mark)
	if err != nil {
		return nil, err
	}
	return c.bring(&Exchange{begin: begin}, out)
}

// resume begins the rest of a stream.
func (b *broughtLines) resume(x *Exchange) {
	if b.agreed.Version == nil {
		return
	}
	caller := b.agreed
	caller.session, caller.head, caller.call = b.session, lineHead, &call{w: x.w}
	x.begin(x.w.failed, &caller)
}
