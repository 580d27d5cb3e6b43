package httpserver

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"runnel/rpc"
)

// Served is the server for one owner.
type Served struct {
	*rpc.Server
	// InputSchema returns the JSON schema of a tool's arguments, nil if there is no such tool.
	InputSchema func(ctx context.Context, tool string) []byte
	// File returns a file that a task of the owner has made, nil if there is none; nil = no files are served.
	File func(ctx context.Context, task, name string) (*File, error)
}

// Options of a Server. Serves, MaxLine and MaxInFlight must be set.
type Options struct {
	// Serves returns the server for an owner: the same one as long as the owner is busy (see Busy). It is
	// called while a request is in flight.
	Serves func(owner string) (Served, error)

	// CheckHops, if set, is called with the number of runnels that a request has passed through before this
	// one. It returns an error if there are too many.
	CheckHops func(owner string, hops int) error

	Tokens    *Fresh[*Tokens] // tokens, and whose tasks they see; nil: none
	Authority *Authority      // the issuer of other tokens; nil: none
	Owner     string          // the owner for everybody if there are neither
	Origins   []string        // pages that may use the server, beside those of this machine
	Proxies   Proxies         // trusted to say who a client is

	// Sessions returns where other fronts find an owner's sessions; nil: they end with the process.
	Sessions func(owner string) Sessions
	// The URL where other fronts reach this one, to pass on requests of its sessions; "": nowhere.
	Advertise string

	Page *Page // the page at GET /; nil: none

	Certificate *Fresh[*tls.Certificate] // nil: no TLS
	Observe     func(method string, status int)
	// Fails if no calls should be sent here; anyone reads why. nil: it never fails.
	Ready func(ctx context.Context) error

	MaxLine     int           // bytes of the longest body
	MaxInFlight int           // requests of an owner that are answered at once
	Drain       time.Duration // how long requests in flight may run on at the end
	Log         zerolog.Logger
}

// host returns the server's name, "" if it is unknown.
func (o *Options) host() string {
	if o.Authority == nil {
		return ""
	}
	u, err := url.Parse(o.Authority.Resource)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// Server serves MCP over HTTP. [Listen] makes one.
type Server struct {
	o        Options
	listener net.Listener
	http     *http.Server
	guard    guard
	fronts   *http.Transport // sends requests to other fronts
	limits   sessionLimits
	kept     atomic.Int64 // bytes of events that all streams hold
	streams  atomic.Int64 // responses that are streams of events at the moment

	ended chan struct{} // closed by Stop
	tidy  sync.WaitGroup

	mu        sync.Mutex
	sessions  map[sessionKey]*session   // of the handshake era
	brief     map[*rpc.Session]struct{} // of single requests, in the stateless era
	inFlight  places                    // requests that are being answered
	waiting   places                    // requests that wait for something to happen
	held      map[string]int64          // bytes of bodies in flight, by owner (post.go)
	heldInAll int64
	stopped   bool
}

// Stop takes no more requests, lets those in flight run for Options.Drain, and ends the rest.
func (s *Server) Stop() {
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		return
	}
	s.stopped = true
	s.mu.Unlock()
	close(s.ended)
	ctx, cancel := context.WithTimeout(context.Background(), s.o.Drain)
	defer cancel()
	s.each(func(c *rpc.Session) { c.Drain(ctx) })
	s.each(func(c *rpc.Session) { c.End(rpc.ErrShutdown) })
}

func (s *Server) stops() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopped
}

// Close ends the server after Stop: queued lines are still sent, as long as clients read.
func (s *Server) Close() {
	s.Stop()
	s.each((*rpc.Session).Close)
	ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		_ = s.http.Close() // ends the connections of clients that do not read
	}
	s.tidy.Wait()
}

// closeGrace is how long clients may take to read the rest at the end.
const closeGrace = 2 * time.Second

// each calls f for all sessions at once, and waits.
func (s *Server) each(f func(*rpc.Session)) {
	var all sync.WaitGroup
	s.mu.Lock()
	for _, c := range s.sessions {
		all.Go(func() { f(c.Session) })
	}
	for c := range s.brief {
		all.Go(func() { f(c) })
	}
	s.mu.Unlock()
	all.Wait()
}

// enter counts a request of an owner, or returns a problem if there are too many.
func (s *Server) enter(owner string) (problem string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.stopped:
		return errStopped.Error()
	case s.inFlight[owner] >= s.o.MaxInFlight:
		return fmt.Sprintf("too many requests in flight: the limit is %d", s.o.MaxInFlight)
	}
	s.inFlight[owner]++
	return ""
}

func (s *Server) leave(owner string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight.leave(owner)
}

// places are how many requests each owner has of a kind.
type places map[string]int

func (p places) leave(owner string) {
	if p[owner]--; p[owner] == 0 {
		delete(p, owner)
	}
}

const (
	// maxWaits is how many requests of an owner may wait: each takes a connection, of which others need some,
	// too.
	maxWaits = 1000
	// maxWaitsInAll limits the requests of all owners that wait, so that connections are left for those that
	// do not.
	maxWaitsInAll = maxConnections - 500
)

// enterWait counts a request of an owner that waits, or returns a problem if there are too many.
func (s *Server) enterWait(owner string) (problem string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := 0
	for _, n := range s.waiting {
		all += n
	}
	switch {
	case s.stopped:
		return errStopped.Error()
	case s.waiting[owner] >= maxWaits:
		return fmt.Sprintf("too many of your streams and requests wait: the limit is %d: end some of them",
			maxWaits)
	case all >= maxWaitsInAll:
		return fmt.Sprintf("too many streams and requests wait: the limit for all clients is %d: try "+
			"again later", maxWaitsInAll)
	}
	s.waiting[owner]++
	return ""
}

func (s *Server) leaveWait(owner string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting.leave(owner)
}

// Busy returns the owners that have a session or a request in flight. The servers that Serves returned for
// others can be closed.
func (s *Server) Busy() map[string]bool {
	busy := map[string]bool{}
	s.mu.Lock()
	defer s.mu.Unlock()
	for owner := range s.inFlight {
		busy[owner] = true
	}
	for owner := range s.waiting {
		busy[owner] = true
	}
	for _, c := range s.sessions {
		busy[c.owner] = true
	}
	return busy
}

// Open returns the number of sessions, and of event streams that are being sent.
func (s *Server) Open() (sessions, streams int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sessions), int(s.streams.Load())
}

// begin adds the session of a single request. It reports false if the server is stopping.
func (s *Server) begin(c *rpc.Session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.brief[c] = struct{}{}
	return !s.stopped
}

func (s *Server) end(c *rpc.Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.brief, c)
}
