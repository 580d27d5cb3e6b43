package rpc

import (
	"errors"
	"fmt"
	"strings"

	"runnel/rpc/mcp"
)

// Error is an error that goes to the client with a code of its own (JSON-RPC 2.0, section 5.1).
// Every other error of a handler is logged and goes out as -32603 "internal error".
type Error struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"` // a json.RawMessage in an error of the other side's
}

// maxMessage bounds the message of an error, in bytes: what it quotes may be as long as a line.
const maxMessage = 4 << 10

// Errorf makes an Error from a code of package mcp and a formatted message, of which 4 KiB are kept. A handler returns it for what the
// client did wrong, or can do something about.
func Errorf(code int, format string, args ...any) *Error {
	text := fmt.Sprintf(format, args...)
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + "…"
	}
	return &Error{Code: code, Message: text}
}

func (e *Error) Error() string { return fmt.Sprintf("%s (code %d)", e.Message, e.Code) }

var (
	// ErrClosed is what writing to a session that has ended returns, and asking a side that can answer no more. Ask for it with errors.Is:
	// what there was to say need not be kept.
	ErrClosed = errors.New("session is closed")

	// ErrCancelled is the cause of a request's context after the client's notifications/cancelled. Compare it with context.Cause where a
	// cancelled call leaves other traces than one that the server ended.
	ErrCancelled = errors.New("cancelled by the client")

	// ErrShutdown is the cause of a request's context when the server stops. Compare it with context.Cause where work goes on elsewhere
	// then.
	ErrShutdown = errors.New("server is shutting down")
)

var errInternal = &Error{Code: mcp.CodeInternalError, Message: "internal error"}
