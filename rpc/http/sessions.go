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
	// maxSessionsInAll is how many those of all owners are: a session takes some 20 KiB. For a new one, the idle one goes of the owner
	// that has the most.
	maxSessionsInAll = 10_000
	// sessionPatience is how long a session lives that nobody uses.
	sessionPatience = 30 * time.Minute
	// resumeGrace is how long a client may take to come back for a stream.
	resumeGrace = time.Minute
	// maxFinished is how many streams of a session are kept for that once they are over.
	maxFinished = 4
)

// sessionKey names a session: an id counts for its owner only, so that another one who knows it can do nothing with it.
type sessionKey struct{ owner, id string }

// mostSessions bounds sessions.
type mostSessions struct{ owned, all int }

// session is one of the handshake era.
type session struct {
	*rpc.Session
	sessionKey
	names    string                      // ends the names of its streams: those of a session that is opened again are others
	version  atomic.Pointer[mcp.Version] // nil until initialize has been answered
	standing *stream
	inAll    *atomic.Int64 // bytes that the streams of all sessions hold

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
	rejoined bool // it goes on with another one
}

// postHandshake serves a message of the handshake era.
func (s *Server) postHandshake(w http.ResponseWriter, r *http.Request, owner string, body []byte, m *message) {
	var c *session
	id := r.Header.Get(sessionHeader)
	opens := id == "" && m.method == "initialize"
	switch {
	case opens:
		var err error
		if c, err = s.open(owner, m.params); err != nil {
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
		out = noteVersion{e.stream, c}
	}
	a := &answer{sender: e.begin(), unanswered: s.unanswered(m, c)}
	if v := c.version.Load(); v != nil {
		a.primed = v.PrimedStreams
	}
	x, err := c.Take(body, out)
	if c.brings(e, x, err) != nil {
		refuse(w, http.StatusNotFound, m.id, mcp.CodeInvalidRequest, "the session has ended: send initialize again")
		return
	}
	whole := a.respond(w, r)
	cut := whole && s.cut(c, a.sender)
	c.left(a.sender, whole, a.events)
	if opens && c.version.Load() == nil {
		s.close(c)
	}
	if cut {
		panic(http.ErrAbortHandler)
	}
}

// noteVersion notes the version that the response to initialize agrees on.
type noteVersion struct {
	*stream
	c *session
}

func (o noteVersion) WriteLines(ctx context.Context, lines []byte, last bool) error {
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
	last := r.Header.Get("Last-Event-ID")
	if strings.Count(last, "-") > 1 { // it may take as much as a call
		if problem := s.enter(owner); problem != "" {
			refuse(w, http.StatusServiceUnavailable, nil, mcp.CodeBusy, problem)
			return
		}
		defer s.leave(owner)
	}
	from, err := c.resume(r.Context(), last)
	switch {
	case err == errForgotten:
		refuse(w, http.StatusGone, nil, mcp.CodeInvalidRequest, "Last-Event-ID: "+err.Error())
		return
	case err != nil:
		s.o.Log.Warn().Err(err).Msg("a stream cannot be resumed now")
		refuse(w, http.StatusServiceUnavailable, nil, mcp.CodeBusy, "the stream cannot be resumed now: try again")
		return
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // a stream lasts longer than a request takes to come
	a := &answer{sender: from}
	if v := c.version.Load(); v != nil {
		a.primed = v.PrimedStreams
	}
	whole := a.sendEvents(w, r)
	cut := whole && s.cut(c, from)
	c.left(from, whole, true)
	if cut {
		panic(http.ErrAbortHandler)
	}
}

// cut reports whether the end of the server has cut a stream off. Its connection is to break off, too: of a stream that ends well no more comes,
// and its client would not resume it.
func (s *Server) cut(c *session, from *sender) bool {
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
	s.noteEnded(c.sessionKey) // before it can be missed, and be opened again
	s.close(c)
	w.WriteHeader(http.StatusNoContent)
}

// noteEnded remembers that a client has ended a session.
func (s *Server) noteEnded(key sessionKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.endedFirst = append(s.endedFirst, key); len(s.endedFirst) > maxEnded {
		delete(s.endedByClient, s.endedFirst[0])
		s.endedFirst = s.endedFirst[1:]
	}
	s.endedByClient[key] = struct{}{}
}

// open makes a session for a client that sends initialize, unless there are too many.
func (s *Server) open(owner string, params []byte) (*session, error) {
	served, err := s.o.Serves(owner)
	if err != nil {
		return nil, err
	}
	id := rand.Text()
	if served.Resumes() {
		id = newID(params)
	}
	return s.add(s.newSession(served, sessionKey{owner, id}, ""))
}

// newSession makes a session that nobody finds yet.
func (s *Server) newSession(served Served, key sessionKey, names string) *session {
	standing := newStream("0"+names, &s.kept)
	standing.standing = true
	c := &session{sessionKey: key, names: names, standing: standing, inAll: &s.kept, connections: 1, used: time.Now(), streams: map[string]*exchange{}}
	c.Session = served.NewSession(standing)
	c.streams[standing.name] = &exchange{stream: standing}
	return c
}

// add lets a session be found, unless there are too many, and returns it, or the one of that id which has been added before.
func (s *Server) add(c *session) (*session, error) {
	s.mu.Lock()
	if there := s.sessions[c.sessionKey]; there != nil {
		there.connections++
		s.mu.Unlock()
		s.over(c)
		return there, nil
	}
	if _, ended := s.endedByClient[c.sessionKey]; ended { // while it was opened again
		s.mu.Unlock()
		s.over(c)
		return nil, errNoSession
	}
	gone, ok := s.room(c.owner)
	if gone != nil {
		delete(s.sessions, gone.sessionKey)
	}
	if ok {
		s.sessions[c.sessionKey] = c
	}
	if s.stopped {
		go c.Stop()
	}
	s.mu.Unlock()
	if gone != nil {
		s.over(gone)
	}
	if !ok {
		s.over(c)
		return nil, errors.New("too many sessions")
	}
	return c, nil
}

// room reports whether an owner may have one more session, and which one has to go for it, if one has to. mu is held.
func (s *Server) room(owner string) (gone *session, ok bool) {
	count := s.count()
	switch {
	case count[owner] >= s.most.owned:
	case len(s.sessions) >= s.most.all:
		for other, n := range count {
			if n > count[owner] {
				owner = other
			}
		}
	default:
		return nil, true
	}
	gone = s.idlest(owner)
	return gone, gone != nil
}

// count is how many sessions each owner has. mu is held.
func (s *Server) count() map[string]int {
	count := map[string]int{}
	for key := range s.sessions {
		count[key.owner]++
	}
	return count
}

// idlest is an owner's session that has been idle for longest, nil if it has none. mu is held.
func (s *Server) idlest(owner string) (idlest *session) {
	for key, c := range s.sessions {
		if key.owner == owner && c.connections == 0 && (idlest == nil || c.used.Before(idlest.used)) {
			idlest = c
		}
	}
	return idlest
}

// use finds the session of a request, and answers it if there is none. unuse is to follow.
func (s *Server) use(w http.ResponseWriter, r *http.Request, owner string, id []byte) *session {
	key := sessionKey{owner, r.Header.Get(sessionHeader)} // foreign is not found
	s.mu.Lock()
	c := s.sessions[key]
	if c != nil {
		c.connections++
	}
	s.mu.Unlock()
	if c == nil {
		var err error
		if c, err = s.revive(r.Context(), key); err != nil {
			status, code := http.StatusServiceUnavailable, mcp.CodeBusy
			if err == errNoSession {
				status, code = http.StatusNotFound, mcp.CodeInvalidRequest
			}
			refuse(w, status, id, code, err.Error())
			return nil
		}
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
	open := s.sessions[c.sessionKey] == c
	if open {
		delete(s.sessions, c.sessionKey)
	}
	s.mu.Unlock()
	if open {
		s.over(c)
	}
}

// over is close for a session that nobody finds.
func (s *Server) over(c *session) {
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
	e := &exchange{stream: newStream(strconv.Itoa(c.last)+c.names, c.standing.inAll)}
	c.streams[e.name] = e
	return e
}

// resume connects to the stream of an event, after that event; "" is the standing stream, after what was sent.
func (c *session) resume(ctx context.Context, lastEvent string) (*sender, error) {
	if lastEvent == "" {
		return c.standing.begin(), nil
	}
	name, rest, _ := strings.Cut(lastEvent, "-")
	number, mark, _ := strings.Cut(rest, "-")
	after, err := strconv.Atoi(number)
	if err != nil {
		return nil, errForgotten
	}
	c.mu.Lock()
	e := c.streams[name]
	c.mu.Unlock()
	from, err := (*sender)(nil), errForgotten
	switch {
	case e != nil:
		from, err = e.connect(after)
	case strings.TrimRight(name, letters) == "0": // what waited for it went with the session that has been opened again
		return c.standing.begin(), nil
	}
	if err == nil || mark == "" {
		return from, err
	}
	// Memory does not hold what comes next.
	c.mu.Lock()
	if e != nil && e.Exchange != nil {
		_ = e.begin() // takes it over from a connection that there still is
		e.Abandon()
		c.forget(name)
	}
	c.mu.Unlock()
	e = c.stream()
	e.before, e.mark, e.rejoined = mark, mark, true
	x, err := c.Resume(ctx, mark, e.stream)
	switch err = c.brings(e, x, err); {
	case errors.Is(err, rpc.ErrNoStream):
		return nil, errForgotten
	case err != nil:
		return nil, err
	}
	return e.begin(), nil
}

// brings notes the exchange that fills a stream, or forgets the stream if that has failed.
func (c *session) brings(e *exchange, x *rpc.Exchange, err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.Exchange = x; err != nil {
		c.forget(e.name)
	}
	return err
}

const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"

// left notes that a connection has sent what it could of a stream. If there were events, another connection can go on for a while.
func (c *session) left(from *sender, whole, events bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.streams[from.name]
	crowded := c.inAll.Load() > maxKeptInAll
	switch {
	case from.stream == c.standing || e == nil || !from.current():
	case !whole && (crowded || e.rejoined): // the client can go on otherwise
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
