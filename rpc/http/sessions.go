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
	// maxSessions is how many sessions an owner has: few clients end theirs. For a new one, the one that has been idle for longest goes.
	maxSessions = 1000
	// maxSessionsInAll is how many those of all owners are: a session takes some 20 KiB. For a new one, the idle one goes of the owner
	// that has the most.
	maxSessionsInAll = 10_000
	// sessionPatience is how long a session lives that nobody uses.
	sessionPatience = 30 * time.Minute
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
