package httpserver

import (
	"encoding/base64"
	"strings"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// Only its stream keeps the answer to a request that is not a task. Until that answer, the ids of the stream's events contain the request's
// id, so that a client that comes back after the stream is gone, even with its process, learns at least that no answer comes.

const (
	lostPrefix = "call:" // no mark of a task has a colon
	maxLostID  = 64      // of the request's id, in bytes: it goes with each event
)

// callMark is the mark of a request's stream until its answer, or the mark of a task, comes; "" for a message without an answer.
func callMark(m *message) string {
	if m.id == nil || m.method == "" || len(m.id) > maxLostID {
		return ""
	}
	return lostPrefix + base64.RawURLEncoding.EncodeToString(m.id)
}

// goesOn reports whether another stream can continue after a mark.
func goesOn(mark string) bool { return mark != "" && !strings.HasPrefix(mark, lostPrefix) }

// lost returns the answer to the request whose id a mark holds, nil if it holds none.
func lost(mark string) []byte {
	id, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(mark, lostPrefix))
	answer := rpc.Refusal(id, rpc.Errorf(mcp.CodeInternalError, "the answer is lost: the server was restarted, or the connection was lost for too long"))
	if err != nil || rawjson.Member(answer, "id") == nil {
		return nil
	}
	return answer
}
