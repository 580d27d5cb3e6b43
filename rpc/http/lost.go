package httpserver

import (
	"encoding/base64"
	"strings"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// The answer to a request that is not a task is only kept in its stream. Until that answer, the ids of the
// stream's events contain the request's id, so that a client that comes back after the stream is gone, even
// with its process, at least learns that no answer will come.

const (
	lostPrefix = "call:" // a task's mark has no colon
	maxLostID  = 64      // bytes of the request's id, which is repeated with each event
)

// callMark is the mark of a request's stream until its answer or a task's mark is written; "" for a message
// without an answer.
func callMark(m *message) string {
	if m.id == nil || m.method == "" || len(m.id) > maxLostID {
		return ""
	}
	return lostPrefix + base64.RawURLEncoding.EncodeToString(m.id)
}

// resumable reports whether another stream can continue after a mark.
func resumable(mark string) bool { return mark != "" && !strings.HasPrefix(mark, lostPrefix) }

// lost returns the answer to the request whose id is in a mark, nil if there is none.
func lost(mark string) []byte {
	id, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(mark, lostPrefix))
	answer := rpc.Refusal(id, rpc.Errorf(mcp.CodeInternalError,
		"the answer is lost: the server was restarted, or the connection was lost for too long"))
	if err != nil || rawjson.Member(answer, "id") == nil {
		return nil
	}
	return answer
}
