package httpserver

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"runnel/internal/headers"
	"runnel/rpc"
	"runnel/rpc/mcp"
)

const (
	// maxSessions is how many sessions an owner may have: few clients end theirs. A new one replaces the one
	// that has been idle for longest.
	maxSessions = 1000
	// maxSessionsInAll limits the sessions of all owners: a session takes some 20 KiB. A new one replaces the
	// idlest one of the owner with the most sessions.
	maxSessionsInAll = 10_000
	// sessionPatience is how long an idle session lives.
	sessionPatience = 30 * time.Minute
)

// sessionKey identifies a session. An id is only valid for its owner, so it is useless to anyone else who
// knows it.
type sessionKey struct{ owner, id string }

// sessionLimits limits the number of sessions.
type sessionLimits struct{ owned, all int }

// session is a session of the handshake era.
type session struct {
	*rpc.Session
	sessionKey
	// The end of its streams' names, so that no event of another session, or of this one before it was
	// revived, matches.
	names    string
	standing *stream
	inAll    *atomic.Int64 // bytes that the streams of all sessions hold

	storing  sync.Mutex // held while the state is asked; guards what follows
	stored   stored
	version  uint64    // of what the state has; 0 = it has nothing
	storedAt time.Time // when it was last stored
	seen     time.Time // when the state was last asked

	// Guarded by Server.mu.
	connections int
	used        time.Time // when it last had a connection

	mu       sync.Mutex
	last     int // the number of the latest stream
	streams  map[string]*exchange
	finished []string // names of finished streams, oldest first
}

// open makes a session for a client that sends initialize, unless there are too many.
func (s *Server) open(ctx context.Context, owner string) (*session, error) {
	served, err := s.o.Serves(owner)
	if err != nil {
		return nil, err
	}
	return s.add(ctx, s.newSession(served, sessionKey{owner, rand.Text()}))
}

// newSession makes a session that acquire does not find yet.
func (s *Server) newSession(served Served, key sessionKey) *session {
	names := rand.Text()[:4]
	standing := newStream("0"+names, &s.kept)
	standing.standing = true
	c := &session{sessionKey: key, names: names, standing: standing, inAll: &s.kept, connections: 1,
		used: time.Now(), streams: map[string]*exchange{}}
	standing.asks = c.forward
	c.Session = served.NewSession(standing)
	c.streams[standing.name] = &exchange{stream: standing}
	return c
}

// add adds a session, unless there are too many, and returns it, or the one with the same id that was added
// before.
func (s *Server) add(ctx context.Context, c *session) (added *session, err error) {
	s.mu.Lock()
	added = s.sessions[c.sessionKey]
	gone := c
	switch {
	case added != nil:
		added.connections++
	case s.stopped:
		err = errStopped
	default:
		if gone, err = s.room(c.owner); err != nil {
			gone = c
			break
		}
		if gone != nil {
			delete(s.sessions, gone.sessionKey)
		}
		s.sessions[c.sessionKey] = c
		added = c
	}
	s.mu.Unlock()
	if gone != nil {
		s.endSession(gone)
	}
	// Its client has to begin again: otherwise the state would fill with sessions.
	if gone != nil && gone != c {
		if err := s.unstore(ctx, gone); err != nil {
			s.o.Log.Warn().Err(err).Str("owner", gone.owner).
				Msg("a session that had to go stays in the state until it expires")
		}
	}
	return added, err
}

var errStopped = errors.New("the server is shutting down")

// room returns the session that must go for another one of an owner, nil if there is room, or an error if
// none can go. mu is held.
func (s *Server) room(owner string) (gone *session, err error) {
	count, idlest := map[string]int{}, map[string]*session{} // by owner
	for key, c := range s.sessions {
		count[key.owner]++
		if first := idlest[key.owner]; c.connections == 0 && (first == nil || c.used.Before(first.used)) {
			idlest[key.owner] = c
		}
	}
	switch {
	case count[owner] >= s.limits.owned:
	case len(s.sessions) >= s.limits.all:
		for other, n := range count {
			if n > count[owner] {
				owner = other
			}
		}
	default:
		return nil, nil
	}
	if idlest[owner] == nil {
		return nil, errors.New("too many sessions")
	}
	return idlest[owner], nil
}

// maxMoves is how often a session may move to another front while a request looks for it.
const maxMoves = 3

// acquire finds the session of a request. It returns nil if there is none, or another front has it: then the
// request is answered. release must follow.
func (s *Server) acquire(w http.ResponseWriter, r *http.Request, owner string, id, body []byte) *session {
	key := sessionKey{owner, r.Header.Get(headers.Session)} // one of another owner is not found
	forwarded := r.Header.Get(headers.Forwarded) != ""
	var c *session
	err := errors.New("the session moves from one server to another: try again")
	for moves := 0; c == nil && moves < maxMoves; moves++ {
		var front string
		if c, front, err = s.find(r.Context(), key, !forwarded); err != nil || c != nil {
			break
		}
		if forwarded {
			refuse(w, http.StatusMisdirectedRequest, id, mcp.CodeNoSession, errNoSession.Error())
			return nil
		}
		became := s.forward(w, r, front, id, body)
		if became == answered {
			return nil
		}
		s.takeOver(r.Context(), key, front)
		if became == silent {
			return nil
		}
	}
	if err != nil {
		status, code := http.StatusServiceUnavailable, mcp.CodeBusy
		if err == errNoSession {
			status, code = http.StatusNotFound, mcp.CodeNoSession
		}
		refuse(w, status, id, code, err.Error())
		return nil
	}
	// "If the server receives a request with an invalid or unsupported MCP-Protocol-Version, it MUST respond
	// with 400 Bad Request"
	if name := r.Header.Get(headers.Version); name != "" {
		if v := mcp.LookupVersion(name); v == nil || v.Stateless {
			refuse(w, http.StatusBadRequest, id, mcp.CodeInvalidRequest,
				headers.Version+" names a version that the session does not speak")
			s.release(c)
			return nil
		}
	}
	return c
}

// find finds a session, or the front that has it. One that no front has is opened again, unless it must be
// here.
func (s *Server) find(ctx context.Context, key sessionKey, opens bool) (c *session, front string, err error) {
	s.mu.Lock()
	if c = s.sessions[key]; c != nil {
		c.connections++
	}
	s.mu.Unlock()
	switch {
	case c != nil && (!opens || s.stays(ctx, c)):
		return c, "", nil
	case c != nil:
		s.release(c)
		s.close(c)
	case !opens:
		return nil, "", nil
	}
	found, version, err := s.load(ctx, key)
	if err != nil || found.Front != "" && found.Front != s.o.Advertise {
		return nil, found.Front, err
	}
	c, err = s.revive(ctx, key, found, version)
	return c, "", err
}

// unstore deletes a session from the state.
func (s *Server) unstore(ctx context.Context, c *session) error {
	c.storing.Lock()
	defer c.storing.Unlock()
	if c.version == 0 {
		return nil
	}
	err := s.o.Sessions(c.owner).DeleteSession(ctx, c.id)
	if err == nil {
		c.version = 0
	}
	return err
}

func (s *Server) release(c *session) {
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
		s.endSession(c)
	}
}

// endSession is close for a session that has left s.sessions, or was never in it.
func (s *Server) endSession(c *session) {
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
	v := c.Version()
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

// refresh stores a session again before what is stored of it expires.
func (s *Server) refresh(c *session) {
	c.storing.Lock()
	due := c.version > 0 && time.Since(c.storedAt) > storeAfter
	c.storing.Unlock()
	if due {
		ctx, cancel := context.WithTimeout(context.Background(), bodyPatience)
		defer cancel()
		s.change(ctx, c, func(*stored) {})
	}
}

// closeIdle closes idle sessions, and keeps the others stored.
func (s *Server) closeIdle() {
	t := time.NewTicker(time.Minute)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-s.ended:
			return
		}
		var idle, open []*session
		s.mu.Lock()
		for _, c := range s.sessions {
			if c.connections == 0 && time.Since(c.used) > sessionPatience {
				idle = append(idle, c)
			} else {
				open = append(open, c)
			}
		}
		s.mu.Unlock()
		for _, c := range idle {
			s.close(c)
		}
		for _, c := range open {
			s.refresh(c)
		}
	}
}
