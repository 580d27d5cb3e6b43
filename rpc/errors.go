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

// Errorf makes an Error from a code and a formatted message, of which 4 KiB are kept.
func Errorf(code int, format string, args ...any) *Error {
	text := fmt.Sprintf(format, args...)
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + "…"
	}
	return &Error{Code: code, Message: text}
}

func (e *Error) Error() string { return fmt.Sprintf("%s (code %d)", e.Message, e.Code) }

var (
	// ErrClosed is what writing to a session that has ended returns.
	ErrClosed = errors.New("session is closed")

	// ErrCancelled is the cause of a request's context after the client's notifications/cancelled.
	ErrCancelled = errors.New("cancelled by the client")

	// ErrShutdown is the cause of a request's context when the server stops.
	ErrShutdown = errors.New("server is shutting down")
)

var errInternal = &Error{Code: mcp.CodeInternalError, Message: "internal error"}
