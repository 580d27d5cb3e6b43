package rpc

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"strconv"
	"sync"

	"github.com/rs/zerolog"

	"runnel/rpc/rawjson"
)

// outgoing holds our own requests that wait for an answer, or for further answers.
type outgoing struct {
	log zerolog.Logger

	// Owned by the sender, which holds peer.sendTurn.
	last    uint64 // starts at 1: some clients and servers treat the id 0 as none
	sending *request

	mu        sync.Mutex
	waiting   map[uint64]*request
	withdrawn []uint64 // nobody waits for their answers any more, but the Conn still knows them
}

// Response is one answer of the other side: a result or an error. [Request.OnResponse] gets each of them.
type Response struct {
	Result json.RawMessage
	Err    *Error
}

// request is a request of our own.
type request struct {
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

// sent registers a request that is about to be written. The Conn would drop an earlier answer, and the sender
// would wait for ever.
func (o *outgoing) sent(req *request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting[req.id] = req
}

// forget drops all further answers to a request.
func (o *outgoing) forget(req *request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.waiting, req.id)
}

// withdraw takes back a request whose answer nobody waits for any more. It reports false if the answer is
// already on its way to the sender. The Conn forgets a request only with its answer, and the other side does
// not answer a cancelled one, so the reader makes one up.
func (o *outgoing) withdraw(req *request) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !req.answered {
		delete(o.waiting, req.id)
		o.withdrawn = append(o.withdrawn, req.id)
	}
	return !req.answered
}

// withdrawnAnswer returns a made-up answer to a request that was withdrawn, nil if there is none.
func (o *outgoing) withdrawnAnswer() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.withdrawn) == 0 {
		return nil
	}
	id := o.withdrawn[0]
	o.withdrawn = o.withdrawn[1:]
	return connAnswer(id)
}

// take takes an answer from the other side. For the first answer to a request it returns what the Conn gets,
// otherwise nil. An answer to no request is ignored.
func (o *outgoing) take(id []byte, r Response) []byte {
	number := answeredID(id)
	o.mu.Lock()
	req := o.waiting[number]
	first := req != nil && !req.answered
	if first {
		if len(r.Result) <= keepBuffer { // else its line stays (lineReader.next)
			r.Result = bytes.Clone(r.Result)
		}
		req.answered, req.answer = true, r
	}
	o.mu.Unlock()
	if req == nil {
		o.log.Debug().Bytes("id", id).Any("error", r.Err).Msg("ignoring a response to no request")
		return nil
	}
	if req.onResponse == nil || !req.onResponse(r) {
		o.forget(req)
	}
	if !first {
		return nil
	}
	return connAnswer(number)
}

// answeredID returns the id of ours that an answer means, 0 if it is none of them. Some servers write it as a
// string, or as 1.0.
func answeredID(id []byte) uint64 {
	text := cmp.Or(rawjson.Unquote(id), string(id))
	if number, err := strconv.ParseUint(text, 10, 64); err == nil {
		return number
	}
	number, err := strconv.ParseFloat(text, 64)
	if err != nil || number != math.Trunc(number) || number < 0 || number > math.MaxUint32 {
		return 0
	}
	return uint64(number)
}

// connAnswer is the answer that the Conn gets; the real one is kept in the request. The Conn would decode it
// into an any, which loses the precision of large numbers and turns 16 MiB of "1,1,1" into hundreds of MiB.
func connAnswer(id uint64) []byte {
	return append(strconv.AppendUint([]byte(`{"id":`), id, 10), `,"result":true}`...)
}

// readError reads the other side's error. A member of the wrong type reads as absent. Data stays encoded: as
// an any it would take twenty times the memory.
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
