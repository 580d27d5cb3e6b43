package httpserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

const (
	// eventsAfter is how long a request may take before events begin, so that its client, and proxies
	// between, see that it is being served.
	eventsAfter = 500 * time.Millisecond
	// keepAlive is the longest silence on a stream: proxies close connections that are silent for longer,
	// often after 60 s.
	keepAlive = 15 * time.Second
	// writePatience is how long a client may take to read what was sent before its connection is closed.
	writePatience = 5 * time.Minute
)

// retry goes out with the first event of a stream, since there may be no time for it when the server stops:
// "If the server does close the connection prior to terminating the SSE stream, it SHOULD send an SSE event
// with a standard retry field before closing the connection" (2025-11-25 basic/transports, "Sending Messages
// to the Server"). In milliseconds: about as long as a restart takes.
const retry = "retry: 1000\n"

// answer is a stream as one connection sends it.
type answer struct {
	*sender
	primed    bool   // events begin with an empty one, so that even a client that gets no other can resume
	after     string // the id of that event, on a resumed stream
	stateless bool   // the request is of the stateless era
	malformed bool   // it lacks what that era requires
	events    bool   // events were sent

	// Answers a request that ended without an answer; nil: it is not a request.
	unanswered func(w http.ResponseWriter)
}

// respond sends what answers a line: a single response as JSON, no lines as 202, everything else as events.
// It reports false if the connection is gone before the end.
func (a *answer) respond(w *statusWriter, r *http.Request) (whole bool) {
	wait, cancel := context.WithTimeout(r.Context(), eventsAfter)
	defer cancel()
	events, over, err := a.next(wait)
	switch {
	case err != nil && r.Context().Err() != nil:
		return false
	case err == nil && over && len(events) == 0 && a.unanswered != nil:
		a.unanswered(w)
		return true
	case err == nil && over && len(events) == 0:
		w.WriteHeader(http.StatusAccepted)
		return true
	case err == nil && over && len(events) == 1:
		a.sendJSON(w, events[0].text)
		return true
	}
	return a.sendEvents(w, r)
}

func (a *answer) sendJSON(w http.ResponseWriter, text []byte) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writePatience))
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(a.statusOf(text))
	_, _ = w.Write(text) // fails only when the reader has closed
}

// statusOf returns the status of a response.
func (a *answer) statusOf(response []byte) int {
	if !rawjson.IsObject(response) { // a batch
		return http.StatusOK
	}
	failure := rawjson.Member(response, "error")
	code, _ := strconv.Atoi(string(rawjson.Member(failure, "code")))
	switch {
	case failure == nil:
		return http.StatusOK
	case a.malformed, code == mcp.CodeParseError, rawjson.Member(response, "id") == nil:
		return http.StatusBadRequest
	case a.stateless:
		return statelessStatus(code)
	}
	return http.StatusOK
}

// statelessStatus returns the status for an error of the stateless era.
func statelessStatus(code int) int {
	switch code {
	case mcp.CodeMethodNotFound:
		return http.StatusNotFound
	case mcp.CodeParseError, mcp.CodeInvalidRequest, mcp.CodeHeaderMismatch, mcp.CodeMissingCapability,
		mcp.CodeUnsupportedVersion:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// sendEvents sends the stream's events to its end. It reports false if the connection is gone before that, or
// the client's token is not valid any more.
func (a *answer) sendEvents(w *statusWriter, r *http.Request) (whole bool) {
	a.events = true
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	out := http.NewResponseController(w)
	var buf []byte
	switch {
	case a.primed && a.last == 0:
		buf = append(a.appendID(append(buf, retry...), 0, a.before), "data: \n\n"...)
	case a.primed && a.after != "":
		buf = fmt.Appendf(buf, "%sid: %s\ndata: \n\n", retry, a.after)
	}
	sent, over := 0, false
	for {
		if w.admitted != nil && !w.admitted() { // it is revoked, or has expired
			return false
		}
		_ = out.SetWriteDeadline(time.Now().Add(writePatience))
		if _, err := w.Write(buf); err != nil || out.Flush() != nil {
			return false
		}
		a.sentMore(sent)
		if over {
			return true
		}
		wait, cancel := context.WithTimeout(r.Context(), keepAlive)
		events, last, err := a.next(wait)
		cancel()
		switch {
		case errors.Is(err, context.DeadlineExceeded) && r.Context().Err() == nil:
			buf, sent = append(buf[:0], ":\n\n"...), 0
			continue
		case err != nil:
			return false
		}
		buf = buf[:0]
		for i, event := range events {
			if !a.stateless {
				buf = a.appendID(buf, a.last+i+1, event.mark)
			}
			buf = append(append(append(buf, "event: message\ndata: "...), event.text...), "\n\n"...)
		}
		sent, over = len(events), last
	}
}

// appendID appends the id of an event: its stream, its number there, and its mark if it has one.
func (s *stream) appendID(to []byte, number int, mark string) []byte {
	to = append(append(to, "id: "...), s.name...)
	to = strconv.AppendInt(append(to, '-'), int64(number), 10)
	if mark != "" {
		to = append(append(to, '-'), mark...)
	}
	return append(to, '\n')
}

// refuse answers a refused request with a JSON-RPC error.
func refuse(w http.ResponseWriter, status int, id []byte, code int, problem string) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	if status == http.StatusServiceUnavailable && h.Get("Retry-After") == "" {
		h.Set("Retry-After", "1") // what is in flight ends soon
	}
	w.WriteHeader(status)
	// Fails only when the reader has closed.
	_, _ = w.Write(rpc.Refusal(id, &rpc.Error{Code: code, Message: problem}))
}

// statusWriter remembers the status of a response, for the log.
type statusWriter struct {
	http.ResponseWriter
	status int
	call   string // the JSON-RPC method

	admitted func() bool // reports whether the client's token is still valid; nil: it needs none

	streams *atomic.Int64 // counts responses that are streams of events, this one included
	stream  bool
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = cmp.Or(w.status, status)
	if !w.stream && w.Header().Get("Content-Type") == "text/event-stream" {
		w.stream = true
		w.streams.Add(1)
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
