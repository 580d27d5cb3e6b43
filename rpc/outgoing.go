package rpc

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"runnel/internal/pause"
)

// outgoing holds our own requests that wait for an answer, or for further answers.
type outgoing struct {
	log zerolog.Logger

	turn chan struct{} // holds a value while a request waits for its turn; capacity 1
	// Owned by the holder of turn; starts at 1: some clients and servers treat the id 0 as none.
	last uint64

	mu      sync.Mutex
	waiting map[uint64]*request
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

	answered bool          // its first answer has come
	answer   Response      // the first one
	first    chan struct{} // closed when that has come; nil if it passes a Conn
}

// await waits for the first answer to a request that does not pass a Conn.
func (req *request) await(ctx context.Context) error {
	select {
	case <-req.first:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// add registers a request that is about to be written.
func (o *outgoing) add(req *request) {
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

// ListPace is the shortest time between two notifications that a list has changed: a client reads the list
// again after each one. Whatever leads to such a notification need not be faster.
const ListPace = time.Second

// Announce calls tell when changed receives a value, at most once per [ListPace]: changes in between are
// combined. It returns when ctx ends or tell fails.
func Announce(ctx context.Context, changed <-chan struct{}, tell func() error) {
	for {
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
		if tell() != nil {
			return
		}
		if !pause.For(ctx, ListPace) {
			return
		}
	}
}
