package rpc

import (
	"encoding/json"
	"slices"
	"strconv"
	"sync"

	"github.com/rs/zerolog"

	"runnel/rpc/rawjson"
)

// outgoing holds our requests that have no answer yet, or not all of their answers.
type outgoing struct {
	log zerolog.Logger

	mu       sync.Mutex
	last     uint64
	waiting  map[uint64]*question
	recalled []uint64 // those that nobody waits for any more, until the Conn has forgotten them
}

// Response is an answer of the other side: a result, or an error.
type Response struct {
	Result json.RawMessage
	Err    *Error
}

// question is a request of ours.
type question struct {
	method     string
	params     any            // encodes to JSON; nil = none
	head       []byte         // every line that belongs to it begins with this
	w          *writer        // what it is sent by
	meta       map[string]any // goes into its cancellation
	onResponse func(Response) (more bool)

	sent     bool // before, there is nothing to answer: the Conn would drop it, and who asked would wait for ever
	answered bool // the Conn has its first answer, or will have it at once
}

// add numbers a question, from 1: some clients and servers take an id of 0 for none.
func (o *outgoing) add(q *question) (id uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last++
	o.waiting[o.last] = q
	return o.last
}

// send notes that a question is about to be sent, and returns by what.
func (o *outgoing) send(rawID []byte) *writer {
	id, _ := strconv.ParseUint(string(rawID), 10, 64) // we have numbered it
	o.mu.Lock()
	defer o.mu.Unlock()
	q := o.waiting[id]
	if q == nil {
		return nil
	}
	q.sent = true
	return q.w
}

// forget drops all further answers to a question.
func (o *outgoing) forget(id uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.waiting, id)
}

// answer takes an answer. q is nil if it answers nothing.
func (o *outgoing) answer(id uint64) (q *question, first bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if q = o.waiting[id]; q == nil || !q.sent {
		return nil, false
	}
	first, q.answered = !q.answered, true
	return q, first
}

// recall takes back a question that nobody waits for any more. It reports false if its answer is on its way to who asked.
// The Conn forgets a question only with its answer, which the other side, told of the cancellation, does not send: the reader makes one up.
func (o *outgoing) recall(id uint64, q *question) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if q.answered {
		return false
	}
	delete(o.waiting, id)
	o.recalled = append(o.recalled, id)
	return true
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
	return encodeAnswer(id, Response{Err: errInternal})
}

// answered takes an answer of the other side, and returns it for the Conn if it is the first one. One that answers nothing is ignored.
func (o *outgoing) answered(e *envelope, r Response) []byte {
	id, err := strconv.ParseUint(string(e.id), 10, 64)
	q, first := o.answer(id)
	if err != nil || q == nil {
		o.log.Debug().Bytes("id", e.id).Bytes("error", e.err).Msg("ignoring a response to nothing")
		return nil
	}
	if q.onResponse == nil || !q.onResponse(r) {
		o.forget(id)
	}
	if !first {
		return nil
	}
	return encodeAnswer(id, r)
}

// encodeAnswer is an answer as the Conn gets it: JSON of the other side's is a string in it (see quoted).
func encodeAnswer(id uint64, r Response) []byte {
	text := strconv.AppendUint([]byte(`{"id":`), id, 10)
	if r.Err == nil {
		return append(appendQuoted(append(text, `,"result":`...), r.Result), '}')
	}
	text = strconv.AppendInt(append(text, `,"error":{"code":`...), int64(r.Err.Code), 10)
	text = append(append(text, `,"message":`...), rawjson.Encode(r.Err.Message)...)
	data, _ := r.Err.Data.(json.RawMessage)
	return append(appendQuoted(append(text, `,"data":`...), data), '}', '}')
}

// quoted is JSON that was written as a string. The Conn decodes an answer into an any first: a string costs that little, and loses nothing.
type quoted json.RawMessage

func appendQuoted(to, text []byte) []byte {
	to = slices.Grow(to, len(text)+len(text)/4) // mostly, a character in four is a quote at most
	return append(rawjson.AppendText(append(to, '"'), text), '"')
}

// UnmarshalJSON implements json.Unmarshaler.
func (q *quoted) UnmarshalJSON(text []byte) error {
	*q = rawjson.AppendUnquoted(nil, text)
	return nil
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
