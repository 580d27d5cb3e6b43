package httpserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"time"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// bodyPatience is how long a client may take to send a body.
const bodyPatience = 30 * time.Second

// post takes a message.
func (s *Server) post(w *statusWriter, r *http.Request, owner string) {
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/json" {
		refuse(w, http.StatusUnsupportedMediaType, nil, mcp.CodeInvalidRequest,
			"Content-Type must be application/json")
		return
	}
	if !accepts(r, "application/json") || !accepts(r, "text/event-stream") {
		refuse(w, http.StatusNotAcceptable, nil, mcp.CodeInvalidRequest,
			"Accept must list application/json and text/event-stream")
		return
	}
	body, release, status, problem := s.read(w, r, owner)
	defer release()
	if status != 0 {
		refuse(w, status, nil, mcp.CodeInvalidRequest, problem)
		return
	}
	m := message{}
	if _, ok := rawjson.Scan(body); ok {
		m = readMessage(body)
	}
	w.call = m.method[:min(len(m.method), 100)]
	enter, leave := s.enter, s.leave
	if mcp.Waits(m.method) {
		enter, leave = s.enterWait, s.leaveWait
	}
	if problem := enter(owner); problem != "" {
		refuse(w, http.StatusServiceUnavailable, m.id, mcp.CodeBusy, problem)
		return
	}
	defer leave(owner)
	if isStateless(r, &m) {
		s.postStateless(w, r, owner, body, &m)
	} else {
		s.postHandshake(w, r, owner, body, &m)
	}
}

// read reads a body and makes it one line. The caller must call release when it no longer needs the body.
func (s *Server) read(w http.ResponseWriter, r *http.Request,
	owner string) (body []byte, release func(), status int, problem string) {
	held := int64(0)
	release = func() { s.freeBytes(owner, held) }
	tooLong := fmt.Sprintf("message too long: the limit is %d bytes", s.o.MaxLine)
	if r.ContentLength > int64(s.o.MaxLine) {
		w.Header().Set("Connection", "close") // the body is not read
		return nil, release, http.StatusRequestEntityTooLarge, tooLong
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyPatience))
	in := http.MaxBytesReader(w, r.Body, int64(s.o.MaxLine))
	body = make([]byte, 0, min(max(0, r.ContentLength), 64<<10)+1) // one byte more, to notice the end
	for {
		if len(body) == cap(body) {
			body = slices.Grow(body, 4<<10)
		}
		n, err := in.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		problem := s.holdBytes(owner, held, int64(n))
		if held += int64(n); problem != "" {
			return nil, release, http.StatusServiceUnavailable, problem
		}
		switch {
		case err == io.EOF:
			// The server keeps reading from the connection to notice that it closes.
			_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
			body = bytes.TrimSpace(body) // as Take does, so that what is checked here is what is served
			if bytes.IndexByte(body, '\n') >= 0 {
				var line bytes.Buffer
				if json.Compact(&line, body) == nil { // otherwise it is refused as it is
					body = line.Bytes()
				}
			}
			return body, release, 0, ""
		case errors.As(err, new(*http.MaxBytesError)):
			return nil, release, http.StatusRequestEntityTooLarge, tooLong
		case err != nil:
			return nil, release, http.StatusBadRequest, "the message did not arrive completely"
		}
	}
}

// postStateless serves a message of 2026-07-28, in its own session.
func (s *Server) postStateless(w *statusWriter, r *http.Request, owner string, body []byte, m *message) {
	served, err := s.o.Serves(owner)
	if err != nil {
		refuse(w, http.StatusServiceUnavailable, m.id, mcp.CodeBusy, err.Error())
		return
	}
	if m.id != nil {
		if m.version == nil {
			refuse(w, http.StatusBadRequest, m.id, mcp.CodeInvalidParams,
				fmt.Sprintf("params._meta with %q and %q is missing", mcp.MetaProtocolVersion,
					mcp.MetaClientCapabilities))
			return
		}
		problem := mismatch(r, m)
		if problem == "" && m.method == "tools/call" {
			problem = paramMismatch(r, served.InputSchema(r.Context(),
				rawjson.StringMember(m.params, "name")), m.params)
		}
		if problem != "" {
			refuse(w, http.StatusBadRequest, m.id, mcp.CodeHeaderMismatch, problem)
			return
		}
	}
	c := served.NewSession(nil)
	if !s.begin(c) {
		c.End(rpc.ErrShutdown)
	}
	defer func() {
		c.End(rpc.ErrCancelled)
		c.Close()
		s.end(c)
	}()
	st := newStream("", nil)
	a := &answer{sender: st.begin(), stateless: true, malformed: !m.complete,
		unanswered: s.unanswered(m, nil)}
	x, err := c.Take(body, st)
	if err != nil {
		refuse(w, http.StatusServiceUnavailable, m.id, mcp.CodeBusy, errStopped.Error())
		return
	}
	if !a.respond(w, r) {
		// "Closing the SSE response stream MUST be treated by the server as cancellation of that request"
		// (basic/transports/streamable-http)
		x.Abandon()
	}
}

// unanswered returns the answer to a request that ended without one, because it was cancelled or its session
// has ended; nil for a message that needs no answer.
func (s *Server) unanswered(m *message, c *session) func(http.ResponseWriter) {
	if m.id == nil || m.method == "" {
		return nil
	}
	return func(w http.ResponseWriter) {
		status := http.StatusOK
		code := mcp.CodeInternalError
		problem := "the request was cancelled"
		s.mu.Lock()
		switch {
		case s.stopped:
			status, problem = http.StatusServiceUnavailable, errStopped.Error()
		case c != nil && s.sessions[c.sessionKey] != c:
			status = http.StatusNotFound
			code = mcp.CodeNoSession
			problem = "the session has ended: send initialize again"
		}
		s.mu.Unlock()
		refuse(w, status, m.id, code, problem)
	}
}

const (
	// bodies limits the bodies in flight of all owners together, in bodies of the greatest length.
	bodies = 4
	// bodiesOfOwner is the same limit for one owner, so that there is room for others.
	bodiesOfOwner = 2
	// bodyRoom is how many bytes an owner may always hold: most requests fit into it, whatever others send.
	bodyRoom = 64 << 10
)

// holdBytes counts more bytes of a body in flight, of which before bytes were counted already, and returns a
// problem if there are too many. The bytes count in any case, until freeBytes.
func (s *Server) holdBytes(owner string, before, more int64) (problem string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[owner] += more
	s.heldInAll += more
	body, all := before+more, s.held[owner]
	switch limit := int64(s.o.MaxLine); {
	case all <= bodyRoom || s.heldInAll == body: // a body may have any length if it is the only one
	case all > limit*bodiesOfOwner && all > body:
		return fmt.Sprintf("your requests in flight are too large together: the limit is %d bytes",
			limit*bodiesOfOwner)
	case s.heldInAll > limit*bodies:
		return "the requests in flight are too large together: try again"
	}
	return ""
}

// freeBytes stops counting bytes that are no longer held.
func (s *Server) freeBytes(owner string, held int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heldInAll -= held
	if s.held[owner] -= held; s.held[owner] == 0 {
		delete(s.held, owner)
	}
}
