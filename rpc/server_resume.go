package rpc

import (
	"bytes"
	"context"
	"errors"
)

// A carrier may lose a connection in the middle of a stream, and another process may have to resume the
// stream. So the lines of a stream that can be resumed have a mark: text before the message that says where
// to resume after it. The carrier cuts the mark off (CutMark), gives it to the client in its own way, and
// passes it back ([Session.Resume]).

// ErrNoStream is returned for a mark that names no stream, or one that can never be resumed.
var ErrNoStream = errors.New("the mark names no stream that can be resumed")

// HandleResume registers the function that resumes streams. f finds the stream that a mark names; its error
// is ErrNoStream if there will never be one. begin must not wait: it calls Caller.Hold, and writes the rest
// of the stream in another goroutine until its context ends, since nobody takes the output after that. A mark
// comes from the client, so nothing in it can be trusted.
func (s *Server) HandleResume(f func(ctx context.Context, mark string) (begin func(open context.Context, c *Caller), err error)) {
	s.resume = f
}

// Resumes reports whether streams can be resumed by their marks.
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

// Resume writes the rest of a stream that was lost after a line with this mark. The session must have taken
// initialize before.
func (c *Session) Resume(ctx context.Context, mark string, out Output) (*Exchange, error) {
	if !c.srv.Resumes() {
		return nil, ErrClosed
	}
	begin, err := c.srv.resume(ctx, mark)
	if err != nil {
		return nil, err
	}
	return c.exchange(out, func(w *writer) {
		if c.negotiated.Version == nil {
			return
		}
		caller := c.negotiated
		caller.session = c.session
		caller.head = lineHead
		caller.call = &call{w: w}
		begin(w.failed, &caller)
	})
}
