package rpc

import (
	"bytes"
	"encoding/json"
	"strconv"
	"sync"

	"github.com/rs/zerolog"
)

// outgoing holds our requests that have no answer yet, or not all of their answers.
type outgoing struct {
	log zerolog.Logger

	// Owned by whoever may send (peer.asking).
	last    uint64 // from 1: some clients and servers take an id of 0 for none
	sending *question

	mu       sync.Mutex
	waiting  map[uint64]*question
	recalled []uint64 // those that nobody waits for any more, until the Conn has forgotten them
}

// Response is an answer of the other side, as [Request] hands out several: a result, or an error.
type Response struct {
	Result json.RawMessage
	Err    *Error
}

// question is a request of ours.
type question struct {
	id         uint64
	method     string
	params     any            // encodes to JSON; nil = none
	head       []byte         // every line that belongs to it begins with this
	w          *writer        // what it is sent by
	meta       map[string]any // goes into its cancellation
	onResponse func(Response) (more bool)

	answered bool     // the Conn has its first answer, or will have it at once
	answer   Response // the first one
}

// sent notes a question that is about to be written. Before, there is nothing to answer: the Conn would drop it, and who asked would wait
// for ever.
func (o *outgoing) sent(q *question) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting[q.id] = q
}

// forget drops all further answers to a question.
func (o *outgoing) forget(q *question) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.waiting, q.id)
}

// recall takes back a question that nobody waits for any more. It reports false if its answer is on its way to who asked.
// The Conn forgets a question only with its answer, which the other side, told of the cancellation, does not send: the reader makes one up.
func (o *outgoing) recall(q *question) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !q.answered {
		delete(o.waiting, q.id)
		o.recalled = append(o.recalled, q.id)
	}
	return !q.answered
}

// madeUp is an answer to a question that was taken back, nil if there is none.
func (o *outgoing) madeUp() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.recalled) == 0 {
		return nil
	}
	id := o.recalled[0]
	o.recalled = o.recalled[1:]
	return answerTo(id)
}

// take takes an answer of the other side. It returns what the Conn gets of the first one, nil if it is not. One that answers nothing is
// ignored.
func (o *outgoing) take(id []byte, r Response) []byte {
	number, _ := strconv.ParseUint(string(id), 10, 64) // without one, it is none of ours
	o.mu.Lock()
	q := o.waiting[number]
	first := q != nil && !q.answered
	if first {
		q.answered, q.answer = true, Response{bytes.Clone(r.Result), r.Err}
	}
	o.mu.Unlock()
	if q == nil {
		o.log.Debug().Bytes("id", id).Any("error", r.Err).Msg("ignoring a response to nothing")
		return nil
	}
	if q.onResponse == nil || !q.onResponse(r) {
		o.forget(q)
	}
	if !first {
		return nil
	}
	return answerTo(number)
}

// answerTo is what the Conn gets as an answer, which is in the question: the Conn would decode it into an any, which loses large numbers and
// makes hundreds of MiB of 16 MiB of "1,1,1".
func answerTo(id uint64) []byte {
	return append(strconv.AppendUint([]byte(`{"id":`), id, 10), `,"result":true}`...)
}

// readError reads the other side's error. A member of the wrong type reads as absent. Data stays as it is: as an any it would take
// twenty times as much.
func readError(raw []byte) *Error {
	var e struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	}
	_ = json.Unmarshal(raw, &e)
	failure := &Error{Code: e.Code, Message: e.Message}
	if e.Data != nil && string(e.Data) != "null" {
		failure.Data = e.Data
	}
	return failure
}
