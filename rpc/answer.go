package rpc

import (
	"errors"
	"fmt"

	"runnel/internal/shorten"
	"runnel/rpc/mcp"
)

// Encoded is a result that is already JSON: a valid, compact object without the members _meta and resultType.
// It is written unchanged, and both members are added where the era requires them. Return it where one result
// answers many requests, or encoding/json is too slow.
type Encoded []byte

// MarshalJSON implements json.Marshaler.
func (e Encoded) MarshalJSON() ([]byte, error) { return e, nil }

// After is a handler's result with something to do afterwards. Return it where something must not reach the
// wire before the answer, such as the output of a task before its handle.
type After struct {
	Result any
	Mark   string // precedes the response (see Caller.Marks)
	// Do runs on the handler's goroutine as soon as the response is queued: whatever Do writes or starts
	// comes after the response on the wire.
	Do func()
	// Drop, if set, runs instead of Do if the response is not sent: the client cancelled the request, or the
	// output is gone.
	Drop func()
}

// settle runs what follows the response.
func (a *After) settle(sent bool) {
	switch {
	case sent && a.Do != nil:
		a.Do()
	case !sent && a.Drop != nil:
		a.Drop()
	}
}

// Error is an error that reaches the client with its own code (JSON-RPC 2.0, section 5.1). Any other error
// from a handler is logged, and the client gets -32603 "internal error".
type Error struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"` // a json.RawMessage in an error from the other side
}

// maxMessage bounds the message of an error, in bytes: it may quote something as long as a line.
const maxMessage = 4 << 10

// Errorf makes an Error from a code of package mcp and a formatted message, which is cut at 4 KiB. A handler
// returns it for mistakes of the client, and for anything that the client can do something about.
func Errorf(code int, format string, args ...any) *Error {
	return &Error{Code: code, Message: shorten.Clip(fmt.Sprintf(format, args...), maxMessage)}
}

// Error returns the message with its code.
func (e *Error) Error() string { return fmt.Sprintf("%s (code %d)", e.Message, e.Code) }

var (
	// ErrClosed is returned by writes to a session that has ended, and by requests to a side that can no
	// longer answer. Test for it with errors.Is: it need not be reported.
	ErrClosed = errors.New("session is closed")

	// ErrCancelled is the cause of a request's context after the client's notifications/cancelled. Compare it
	// with context.Cause where a call that the client cancelled is treated differently from one that the
	// server ended.
	ErrCancelled = errors.New("cancelled by the client")

	// ErrShutdown is the cause of a request's context when the server stops. Compare it with context.Cause
	// where work must go on elsewhere.
	ErrShutdown = errors.New("server is shutting down")
)

var errInternal = &Error{Code: mcp.CodeInternalError, Message: "internal error"}
