package rpc

import (
	"bytes"
	"context"
	"errors"
)

// A carrier may lose a connection in the middle of a stream, and another process may have to continue the stream. So whoever can continue
// one puts a mark on its lines: text before the message that says how to go on after it. The carrier cuts the mark off (CutMark), gives it
// to the client in its own way, and brings it back ([Session.Resume]).

// ErrNoStream says that a mark stands for nothing that can ever be continued.
var ErrNoStream = errors.New("the mark stands for nothing to go on with")

// HandleResume registers the function that continues streams. f finds what a mark stands for; its error is ErrNoStream if nobody ever will.
// begin must not wait: it calls Caller.Hold, and writes the rest of the stream in a goroutine of its own until its context ends, since
// nobody takes the output after that. A mark comes from the client, so nothing in it can be trusted.
func (s *Server) HandleResume(f func(ctx context.Context, mark string) (begin func(open context.Context, c *Caller), err error)) {
	s.resume = f
}

// Resumes reports whether streams can be continued by their marks.
func (s *Server) Resumes() bool { return s.resume != nil }

// Marks reports whether lines for this caller may begin with a mark, which must have no '{' and no '['.
func (c *Caller) Marks() bool {
	return c.session.in == nil && c.Era == Handshake && c.session.srv.Resumes()
}

// Marked returns the caller with a mark at the beginning of its lines, other than its response.
func (c *Caller) Marked(mark string) *Caller {
	marked := *c
	marked.head = append([]byte(mark), c.head...)
	return &marked
}

// CutMark splits a line of a [Session] with marks into its mark, "" if it has none, and its message.
func CutMark(line []byte) (mark string, message []byte) {
	if i := bytes.IndexAny(line, "{["); i > 0 {
		return string(line[:i]), line[i:]
	}
	return "", line
}

// Resume writes the rest of a stream that was lost after a line with this mark. The session must have taken initialize before.
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

// resume starts writing the rest of a stream.
func (c *Session) resume(x *Exchange) {
	if c.agreed.Version == nil {
		return
	}
	caller := c.agreed
	caller.session, caller.head, caller.call = c.session, lineHead, &call{w: x.w}
	x.begin(x.w.failed, &caller)
}
