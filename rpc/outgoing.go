package rpc

import (
	"bytes"
	"encoding/json"
	"strconv"
	"sync"

	"github.com/rs/zerolog"
)

// outgoing holds our requests that still wait for an answer, or for further answers.
type outgoing struct {
	log zerolog.Logger

	// Owned by the sender (peer.asking).
	last    uint64 // starts at 1: some clients and servers treat the id 0 as none
	sending *question

	mu       sync.Mutex
	waiting  map[uint64]*question
	recalled []uint64 // nobody waits for these any more, but the Conn still knows them
}

// Response is one answer of the other side: a result or an error. [Request.OnResponse] gets each of them.
type Response struct {
	Result json.RawMessage
	Err    *Error
}

// question is a request of our own.
type question struct {
	id         uint64
	method     string
	params     any            // encodes to JSON; nil = none
	head       []byte         // the beginning of every line that belongs to it
	w          *writer        // sends it
	meta       map[string]any // goes into its cancellation
	onResponse func(Response) (more bool)

	answered bool     // the Conn has its first answer, or is about to get it
	answer   Response // the first one
}

// sent registers a question that is about to be written. An earlier answer would be dropped by the Conn, and its asker would wait for ever.
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

// recall takes back a question that nobody waits for any more. It reports false if the answer is already on its way to the asker. The Conn
// forgets a question only with its answer, and the other side does not answer a cancelled one, so the reader makes an answer up.
func (o *outgoing) recall(q *question) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !q.answered {
		delete(o.waiting, q.id)
		o.recalled = append(o.recalled, q.id)
	}
	return !q.answered
}

// madeUp returns an answer to a question that was taken back, nil if there is none.
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

// take takes an answer from the other side. For the first answer to a question it returns what the Conn gets, otherwise nil. An answer to
// nothing is ignored.
func (o *outgoing) take(id []byte, r Response) []byte {
	number, _ := strconv.ParseUint(string(id), 10, 64) // 0 if it is not a number, which is never one of our ids
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

// answerTo is the answer for the Conn; the real one is kept in the question. The Conn would decode it into an any, which loses the
// precision of large numbers and turns 16 MiB of "1,1,1" into hundreds of MiB.
func answerTo(id uint64) []byte {
	return append(strconv.AppendUint([]byte(`{"id":`), id, 10), `,"result":true}`...)
}

// readError reads the other side's error. A member of the wrong type reads as absent. Data stays encoded: as an any it would take twenty
// times the memory.
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
