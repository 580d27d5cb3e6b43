package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strconv"

	"github.com/sourcegraph/jsonrpc2"

	"runnel/rpc/mcp"
)

// question is a request of ours to the client. One of its fields is set by the reader when the answer has come.
type question struct {
	answer json.RawMessage
	err    *Error
}

// Request asks the client and waits for its answer, which is decoded into result (nil = not wanted). params may be nil.
// It returns the client's error as an *[Error], and [ErrClosed] when the client can answer no more.
// If ctx ends first, the client is told by notifications/cancelled. A client that does not read is asked when it does.
func (c *Caller) Request(ctx context.Context, method string, params, result any) error {
	s := c.session
	// Once the input has ended no answer can come, but the session may go on for long (Options.Drain).
	wait, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.input, cancel)()
	if err := c.Lane().Write(wait, func(dst []byte) []byte { return dst }); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return ErrClosed
	}

	q := &question{}
	s.mu.Lock()
	s.askedID++ // from 1: two clients ignore a cancellation of id 0
	id := s.askedID
	s.asked[id] = q
	s.mu.Unlock()

	opts := []jsonrpc2.CallOption{jsonrpc2.PickID(jsonrpc2.ID{Num: id})}
	if _, sessionID, ok := bytes.Cut(c.head, []byte(`,"sessionId":`)); ok {
		opts = append(opts, jsonrpc2.ExtraField("sessionId", json.RawMessage(sessionID)))
	}
	waiter, err := s.conn.DispatchCall(wait, method, params, opts...)
	if err == nil {
		err = waiter.Wait(wait, nil)
	} else {
		s.forget(id)
	}
	switch {
	case err == nil && result != nil:
		return json.Unmarshal(q.answer, result)
	case err == nil:
		return nil
	case errors.As(err, new(*jsonrpc2.Error)):
		return q.err
	case ctx.Err() != nil:
		s.takeBack(id)
		cancelled := mcp.CancelledParams{RequestID: strconv.AppendUint(nil, id, 10), Reason: context.Cause(ctx).Error()}
		if asked, ok := params.(mcp.ElicitParams); ok {
			// "All requests, notifications, and responses related to a task MUST include" its id (2025-11-25 basic/utilities/tasks)
			cancelled.Meta = asked.Meta
		}
		_ = c.Notify("notifications/cancelled", cancelled)
		return ctx.Err()
	case errors.Is(err, jsonrpc2.ErrClosed), s.input.Err() != nil:
		return ErrClosed
	}
	return err
}

// forget takes a question out of those that wait for an answer, nil if it is none.
func (s *session) forget(id uint64) *question {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.asked[id]
	delete(s.asked, id)
	return q
}

// takeBack forgets a question that nobody waits for any more. The Conn forgets one only with its answer, which a client that
// is told of the cancellation does not send: the reader makes one up (takenBack).
func (s *session) takeBack(id uint64) {
	if s.forget(id) == nil {
		return // the answer is on its way
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moot = append(s.moot, id)
}

// takenBack is a question that the Conn has to forget.
func (s *session) takenBack() (id uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.moot) == 0 {
		return 0, false
	}
	id, s.moot = s.moot[0], s.moot[1:]
	return id, true
}

// answered takes a response of the client. ok is false if it answers nothing; such a response is ignored.
func (s *session) answered(e *envelope) (id uint64, failed, ok bool) {
	id, err := strconv.ParseUint(string(e.id), 10, 64)
	q := s.forget(id)
	if err != nil || q == nil {
		s.log.Debug().Bytes("id", e.id).Bytes("error", e.err).Msg("ignoring a response to nothing")
		return 0, false, false
	}
	if e.err != nil {
		q.err = &Error{}
		_ = json.Unmarshal(e.err, q.err) // what is of the wrong type reads as absent
		return id, true, true
	}
	q.answer = bytes.Clone(e.result)
	return id, false, true
}
