package httpserver

import (
	"net/http"
	"time"

	"runnel/internal/headers"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// postHandshake serves a message of the handshake era.
func (s *Server) postHandshake(w *statusWriter, r *http.Request, owner string, body []byte, m *message) {
	var c *session
	id := r.Header.Get(headers.Session)
	opens := id == "" && m.method == "initialize"
	switch {
	case opens:
		var err error
		if c, err = s.open(r.Context(), owner); err != nil {
			refuse(w, http.StatusServiceUnavailable, m.id, mcp.CodeBusy, err.Error())
			return
		}
	case id == "" && m.method == "":
		refuse(w, http.StatusBadRequest, m.id, mcp.CodeParseError,
			"the body is not a JSON-RPC message that begins a session")
		return
	case id == "":
		refuse(w, http.StatusBadRequest, m.id, mcp.CodeInvalidRequest,
			"no session: send initialize first, and the "+headers.Session+
				" of its response with all that follows")
		return
	default:
		if c = s.acquire(w, r, owner, m.id, body); c == nil {
			return
		}
	}
	defer s.release(c)
	if len(m.adds) > 0 {
		s.change(r.Context(), c, func(in *stored) {
			for _, request := range m.adds {
				in.add(request)
			}
		})
	}
	e := c.stream(callMark(m))
	a := &answer{sender: e.begin(), primed: c.primed(), unanswered: s.unanswered(m, c)}
	x, err := c.Take(body, e.stream)
	switch err = c.setExchange(e, x, err); {
	case err != nil && a.unanswered != nil:
		a.unanswered(w)
		return
	case err != nil:
		refuse(w, http.StatusNotFound, m.id, mcp.CodeNoSession,
			"the session has ended: send initialize again")
		return
	}
	if m.method == "tasks/result" {
		c.awaitsResult(e, rawjson.StringMember(m.params, "taskId"))
	}
	if opens && c.Version() != nil { // otherwise nobody may use the session, which is about to end
		s.keep(r.Context(), c, m.params)
		w.Header().Set(headers.Session, c.id)
	}
	whole := a.respond(w, r)
	cut := s.cut(c, a.sender, whole)
	c.disconnected(a.sender, whole, a.events)
	if opens && (!whole || c.Version() == nil) {
		s.close(c)
	}
	if cut {
		panic(http.ErrAbortHandler)
	}
}

// get sends the standing stream, or the one that Last-Event-ID names.
func (s *Server) get(w *statusWriter, r *http.Request, owner string) {
	v := mcp.LookupVersion(r.Header.Get(headers.Version))
	if r.Header.Get(headers.Session) == "" || v != nil && v.Stateless {
		w.Header().Set("Allow", "POST")
		refuse(w, http.StatusMethodNotAllowed, nil, mcp.CodeInvalidRequest,
			"GET needs the "+headers.Session+
				" of a session of 2025-03-26 to 2025-11-25. HTTP+SSE of 2024-11-05 is not served: use a "+
				"client of 2025-03-26 or later")
		return
	}
	if !accepts(r, "text/event-stream") {
		refuse(w, http.StatusNotAcceptable, nil, mcp.CodeInvalidRequest, "Accept must list text/event-stream")
		return
	}
	c := s.acquire(w, r, owner, nil, nil)
	if c == nil {
		return
	}
	defer s.release(c)
	if problem := s.enterWait(owner); problem != "" {
		refuse(w, http.StatusServiceUnavailable, nil, mcp.CodeBusy, problem)
		return
	}
	defer s.leaveWait(owner)
	last := r.Header.Get("Last-Event-ID")
	from, err := c.resume(r.Context(), last)
	switch {
	case err == errForgotten:
		refuse(w, http.StatusGone, nil, mcp.CodeInvalidRequest, "Last-Event-ID: "+err.Error())
		return
	case err != nil:
		s.o.Log.Warn().Err(err).Msg("a stream cannot be resumed now")
		refuse(w, http.StatusServiceUnavailable, nil, mcp.CodeBusy,
			"the stream cannot be resumed now: try again")
		return
	}
	// a stream lasts longer than sending a request may take.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	a := &answer{sender: from, primed: c.primed(), after: last}
	whole := a.sendEvents(w, r)
	cut := s.cut(c, from, whole)
	c.disconnected(from, whole, a.events)
	if cut {
		panic(http.ErrAbortHandler)
	}
}

// cut reports whether a stream was cut off, even if it was sent to its end: it was abandoned, or the server
// is stopping. Then the connection must break off, because a client does not resume a stream that ends
// properly.
func (s *Server) cut(c *session, from *sender, whole bool) bool {
	if from.isCutOff() || !whole {
		return from.isCutOff()
	}
	s.mu.Lock()
	stopped := s.stopped
	s.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.streams[from.name]
	return stopped && e != nil && e.Exchange != nil && e.Cut()
}

// delete ends a session.
func (s *Server) delete(w http.ResponseWriter, r *http.Request, owner string) {
	if r.Header.Get(headers.Session) == "" {
		w.Header().Set("Allow", "POST")
		refuse(w, http.StatusMethodNotAllowed, nil, mcp.CodeInvalidRequest,
			"DELETE needs the "+headers.Session+" of a session")
		return
	}
	c := s.acquire(w, r, owner, nil, nil)
	if c == nil {
		return
	}
	s.release(c)
	if err := s.unstore(r.Context(), c); err != nil { // first, so that no request revives it
		s.o.Log.Warn().Err(err).Str("owner", owner).Msg("a session cannot be ended now")
		refuse(w, http.StatusServiceUnavailable, nil, mcp.CodeBusy,
			"the session cannot be ended now: try again")
		return
	}
	s.close(c)
	w.WriteHeader(http.StatusNoContent)
}
