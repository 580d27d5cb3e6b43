package httpserver

import (
	"crypto/rand"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"runnel/rpc"
	"runnel/rpc/mcp"
)

const (
	// maxSessions is how many sessions an owner has: few clients end theirs. A new one replaces the one that has been idle for longest.
	maxSessions = 1000
	// maxSessionsInAll limits the sessions of all owners: a session takes some 20 KiB. A new one replaces the idlest one of the owner with
	// the most sessions.
	maxSessionsInAll = 10_000
	// sessionPatience is how long a session lives that nobody uses.
	sessionPatience = 30 * time.Minute
)

// sessionKey identifies a session: an id is only valid for its owner, so that it is useless to anybody else who knows it.
type sessionKey struct{ owner, id string }

// mostSessions limits the number of sessions.
type mostSessions struct{ owned, all int }

// session is a session of the handshake era.
type session struct {
	*rpc.Session
	sessionKey
	names    string                      // ends the names of its streams, so that events of another session, or of this one before it was opened again, match none of them
	version  atomic.Pointer[mcp.Version] // nil until initialize has been answered
	standing *stream
	inAll    *atomic.Int64 // bytes that the streams of all sessions hold

	// Guarded by Server.mu.
	connections int
	used        time.Time // when it last had a connection

	mu       sync.Mutex
	last     int // the number of the latest stream
	streams  map[string]*exchange
	finished []string // names of finished streams, oldest first
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
	return s.add(s.newSession(served, sessionKey{owner, id}))
}

// newSession makes a session that cannot be found yet.
func (s *Server) newSession(served Served, key sessionKey) *session {
	names := rand.Text()[:4]
	standing := newStream("0"+names, &s.kept)
	standing.standing = true
	c := &session{sessionKey: key, names: names, standing: standing, inAll: &s.kept, connections: 1, used: time.Now(), streams: map[string]*exchange{}}
	c.Session = served.NewSession(standing)
	c.streams[standing.name] = &exchange{stream: standing}
	return c
}

// add makes a session findable, unless there are too many, and returns it, or the one with the same id that was added before.
func (s *Server) add(c *session) (*session, error) {
	s.mu.Lock()
	if there := s.sessions[c.sessionKey]; there != nil {
		there.connections++
		s.mu.Unlock()
		s.over(c)
		return there, nil
	}
	if s.stopped {
		s.mu.Unlock()
		s.over(c)
		return nil, errStopped
	}
	gone, ok := s.room(c.owner)
	if gone != nil {
		delete(s.sessions, gone.sessionKey)
	}
	if ok {
		s.sessions[c.sessionKey] = c
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

var errStopped = errors.New("the server is shutting down")

// room reports whether an owner may have another session, and returns the session that must go for it, if any. mu is held.
func (s *Server) room(owner string) (gone *session, ok bool) {
	count, idlest := map[string]int{}, map[string]*session{} // by owner
	for key, c := range s.sessions {
		count[key.owner]++
		if first := idlest[key.owner]; c.connections == 0 && (first == nil || c.used.Before(first.used)) {
			idlest[key.owner] = c
		}
	}
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
	return idlest[owner], idlest[owner] != nil
}

// use finds the session of a request, and answers the request if there is none. unuse must follow.
func (s *Server) use(w http.ResponseWriter, r *http.Request, owner string, id []byte) *session {
	key := sessionKey{owner, r.Header.Get(mcp.HeaderSession)} // one of another owner is not found
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
				status, code = http.StatusNotFound, mcp.CodeNoSession
			}
			refuse(w, status, id, code, err.Error())
			return nil
		}
	}
	// "If the server receives a request with an invalid or unsupported MCP-Protocol-Version, it MUST respond with 400 Bad Request"
	if name := r.Header.Get(mcp.HeaderVersion); name != "" {
		if v := mcp.LookupVersion(name); v == nil || v.Stateless {
			refuse(w, http.StatusBadRequest, id, mcp.CodeInvalidRequest, mcp.HeaderVersion+" names a version that the session does not speak")
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

// close ends a session and cancels its requests in flight.
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

// over is close for a session that can no longer be found.
func (s *Server) over(c *session) {
	s.mu.Lock()
	stopped := s.stopped
	if !stopped {
		s.tidy.Go(c.end)
	}
	s.mu.Unlock()
	if stopped { // Close may already be waiting, so the caller ends the session
		c.end()
	}
}

// primed reports whether the session's streams begin with an empty event.
func (c *session) primed() bool {
	v := c.version.Load()
	return v != nil && v.PrimedStreams
}

// end cancels the requests in flight, and forgets all streams.
func (c *session) end() {
	c.End(rpc.ErrCancelled)
	c.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	for name := range c.streams {
		c.forget(name)
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
