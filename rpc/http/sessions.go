package httpserver

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

const (
	// maxSessions is how many sessions an owner has: few clients end theirs. For a new one, the one that has been idle for longest goes.
	maxSessions = 1000
	// sessionPatience is how long a session lives that nobody uses.
	sessionPatience = 30 * time.Minute
	// resumeGrace is how long a client may take to come back for a stream.
	resumeGrace = time.Minute
	// maxFinished is how many streams of a session are kept for that once they are over.
	maxFinished = 4
)

// session is one of the handshake era.
type session struct {
	*rpc.Session
	id, owner string
	version   atomic.Pointer[mcp.Version] // nil until initialize has been answered
	standing  *stream
	inAll     *atomic.Int64 // bytes that the streams of all sessions hold

	// Guarded by Server.mu.
	connections int
	used        time.Time // when there was one last

	mu       sync.Mutex
	last     int // stream
	streams  map[string]*exchange
	finished []string // names of those that are over, oldest first
}

// exchange is what answers a POST.
type exchange struct {
	*stream
	*rpc.Exchange
}

// postHandshake serves a message of the handshake era.
func (s *Server) postHandshake(w http.ResponseWriter, r *http.Request, owner string, body []byte, m *message) {
	var c *session
	id := r.Header.Get(sessionHeader)
	opens := id == "" && m.method == "initialize"
	switch {
	case opens:
		var err error
		if c, err = s.open(owner); err != nil {
			refuse(w, http.StatusServiceUnavailable, m.id, mcp.CodeBusy, err.Error())
			return
		}
		w.Header().Set(sessionHeader, c.id)
	case id == "" && m.method == "":
		refuse(w, http.StatusBadRequest, m.id, mcp.CodeParseError, "the body is not a JSON-RPC message that begins a session")
		return
	case id == "":
		refuse(w, http.StatusBadRequest, m.id, mcp.CodeInvalidRequest, "no session: send initialize first, and the "+sessionHeader+" of its response with all that follows")
		return
	default:
		if c = s.use(w, r, owner, m.id); c == nil {
			return
		}
	}
	defer s.unuse(c)
	e := c.stream()
	out := rpc.Output(e.stream)
	if opens {
		out = opening{e.stream, c}
	}
	a := &answer{sender: e.begin(), unanswered: s.unanswered(m, c)}
	if v := c.version.Load(); v != nil {
		a.primed = v.PrimedStreams
	}
	var err error
	if e.Exchange, err = c.Take(body, out); err != nil {
		c.mu.Lock()
		c.forget(e.name)
		c.mu.Unlock()
		refuse(w, http.StatusNotFound, m.id, mcp.CodeInvalidRequest, "the session has ended: send initialize again")
		return
	}
	whole := a.respond(w, r)
	c.left(a.sender, whole, a.events)
	if opens && c.version.Load() == nil {
		s.close(c)
	}
}

// opening notes the version that the response to initialize agrees on.
type opening struct {
	*stream
	c *session
}

func (o opening) WriteLines(ctx context.Context, lines []byte, last bool) error {
	if rawjson.IsObject(lines) {
		if v := mcp.LookupVersion(rawjson.StringMember(rawjson.Member(lines, "result"), "protocolVersion")); v != nil {
			o.c.version.Store(v)
		}
	}
	return o.stream.WriteLines(ctx, lines, last)
}

// get sends the standing stream, or the one that Last-Event-ID names.
func (s *Server) get(w http.ResponseWriter, r *http.Request, owner string) {
	v := mcp.LookupVersion(r.Header.Get(versionHeader))
	if r.Header.Get(sessionHeader) == "" || v != nil && v.Stateless {
		w.Header().Set("Allow", "POST")
		refuse(w, http.StatusMethodNotAllowed, nil, mcp.CodeInvalidRequest,
			"GET needs the "+sessionHeader+" of a session of 2025-03-26 to 2025-11-25. HTTP+SSE of 2024-11-05 is not served: use a client of 2025-03-26 or later")
		return
	}
	if !accepts(r, "text/event-stream") {
		refuse(w, http.StatusNotAcceptable, nil, mcp.CodeInvalidRequest, "Accept must list text/event-stream")
		return
	}
	c := s.use(w, r, owner, nil)
	if c == nil {
		return
	}
	defer s.unuse(c)
	from, err := c.resume(r.Header.Get("Last-Event-ID"))
	if err != nil {
		refuse(w, http.StatusGone, nil, mcp.CodeInvalidRequest, "Last-Event-ID: "+err.Error())
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // a stream lasts longer than a request takes to come
	a := &answer{sender: from}
	if v := c.version.Load(); v != nil {
		a.primed = v.PrimedStreams
	}
	c.left(from, a.sendEvents(w, r), true)
}

// delete ends a session.
func (s *Server) delete(w http.ResponseWriter, r *http.Request, owner string) {
	if r.Header.Get(sessionHeader) == "" {
		w.Header().Set("Allow", "POST")
		refuse(w, http.StatusMethodNotAllowed, nil, mcp.CodeInvalidRequest, "DELETE needs the "+sessionHeader+" of a session")
		return
	}
	c := s.use(w, r, owner, nil)
	if c == nil {
		return
	}
	s.unuse(c)
	s.close(c)
	w.WriteHeader(http.StatusNoContent)
}

// open makes a session, unless there are too many.
func (s *Server) open(owner string) (*session, error) {
	served, err := s.o.Serves(owner)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	n, idlest := 0, (*session)(nil)
	for _, c := range s.sessions {
		if c.owner != owner {
			continue
		}
		n++
		if c.connections == 0 && (idlest == nil || c.used.Before(idlest.used)) {
			idlest = c
		}
	}
	s.mu.Unlock()
	if n >= maxSessions {
		if idlest == nil {
			return nil, errors.New("too many sessions")
		}
		s.close(idlest)
	}
	standing := newStream("0", &s.kept)
	c := &session{id: rand.Text(), owner: owner, standing: standing, inAll: &s.kept, connections: 1, used: time.Now(), streams: map[string]*exchange{}}
	c.Session = served.NewSession(standing)
	c.streams["0"] = &exchange{stream: standing}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions[c.id] = c
	if s.stopped {
		go c.Stop()
	}
	return c, nil
}

// use finds the session of a request, and answers it if there is none. unuse is to follow.
func (s *Server) use(w http.ResponseWriter, r *http.Request, owner string, id []byte) *session {
	s.mu.Lock()
	c := s.sessions[r.Header.Get(sessionHeader)]
	if c != nil && c.owner == owner {
		c.connections++
	}
	s.mu.Unlock()
	if c == nil || c.owner != owner { // foreign is not found
		refuse(w, http.StatusNotFound, id, mcp.CodeInvalidRequest, "no such session: send initialize again")
		return nil
	}
	// "If the server receives a request with an invalid or unsupported MCP-Protocol-Version, it MUST respond with 400 Bad Request"
	if name := r.Header.Get(versionHeader); name != "" {
		if v := mcp.LookupVersion(name); v == nil || v.Stateless {
			refuse(w, http.StatusBadRequest, id, mcp.CodeInvalidRequest, versionHeader+" names a version that the session does not speak")
			s.unuse(c)
			return nil
		}
	}
	return c
}

func (s *Server) unuse(c *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.connections--
	c.used = time.Now()
}

// close ends a session: what is in flight is cancelled.
func (s *Server) close(c *session) {
	s.mu.Lock()
	_, open := s.sessions[c.id]
	delete(s.sessions, c.id)
	s.mu.Unlock()
	if open {
		s.tidy.Go(func() {
			c.Cancel()
			c.Close()
			c.mu.Lock()
			defer c.mu.Unlock()
			for name := range c.streams {
				c.forget(name)
			}
		})
	}
}

// closeIdle closes sessions that nobody uses.
func (s *Server) closeIdle() {
	t := time.NewTicker(time.Minute)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-s.ended:
			return
		}
		var idle []*session
		s.mu.Lock()
		for _, c := range s.sessions {
			if c.connections == 0 && time.Since(c.used) > sessionPatience {
				idle = append(idle, c)
			}
		}
		s.mu.Unlock()
		for _, c := range idle {
			s.close(c)
		}
	}
}

// stream makes the stream of a POST.
func (c *session) stream() *exchange {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last++
	e := &exchange{stream: newStream(strconv.Itoa(c.last), c.standing.inAll)}
	c.streams[e.name] = e
	return e
}

// resume connects to the stream of an event, after that event; "" is the standing stream, after what was sent.
func (c *session) resume(lastEvent string) (*sender, error) {
	if lastEvent == "" {
		return c.standing.begin(), nil
	}
	name, number, _ := strings.Cut(lastEvent, "-")
	after, err := strconv.Atoi(number)
	c.mu.Lock()
	e := c.streams[name]
	c.mu.Unlock()
	if e == nil || err != nil {
		return nil, errForgotten
	}
	return e.connect(after)
}

// left notes that a connection has sent what it could of a stream. If there were events, another connection can go on for a while.
func (c *session) left(from *sender, whole, events bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.streams[from.name]
	crowded := c.inAll.Load() > maxKeptInAll
	switch {
	case from.stream == c.standing || e == nil || !from.current():
	case !whole && crowded:
		e.Abandon()
		c.forget(from.name)
	case !whole:
		time.AfterFunc(resumeGrace, func() { c.giveUp(e, from) })
	case !events:
		c.forget(from.name)
	case !slices.Contains(c.finished, from.name):
		c.finished = append(c.finished, from.name)
		for len(c.finished) > maxFinished || crowded && len(c.finished) > 0 {
			c.forget(c.finished[0])
			c.finished = c.finished[1:]
		}
	}
}

// giveUp ends a stream that no connection has taken over.
func (c *session) giveUp(e *exchange, from *sender) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.streams[from.name] == e && from.current() {
		e.Abandon()
		c.forget(from.name)
	}
}

// forget lets go of a stream. mu is held.
func (c *session) forget(name string) {
	if e := c.streams[name]; e != nil {
		e.drop()
		delete(c.streams, name)
	}
}
