package httpserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/net/netutil"

	"runnel/rpc"
	"runnel/rpc/mcp"
)

// Options of a server.
type Options struct {
	Servers map[string]*rpc.Server // by the owner whose tasks each of them sees
	Tokens  *Tokens                // whose request it is; nil: everybody is Owner
	Owner   string
	Origins []string // pages that may use the server, beside those of this machine

	MaxLine     int           // bytes of the longest body
	MaxInFlight int           // requests of an owner that are answered at once
	Drain       time.Duration // at the end, how long requests in flight may go on
	Log         zerolog.Logger
}

const (
	// maxConnections is how many connections are open at once: each takes a descriptor, which tasks need for their commands. Others wait
	// in the kernel.
	maxConnections = 2048
	// headerPatience and bodyPatience are how long a client may take to send: one that is slower holds a connection for nothing.
	headerPatience = 10 * time.Second
	bodyPatience   = 30 * time.Second
	idlePatience   = 2 * time.Minute
	maxHeader      = 32 << 10
	// bodies is how many longest bodies may be in flight together, of all owners.
	bodies = 4
)

// Server serves MCP over HTTP.
type Server struct {
	o        Options
	listener net.Listener
	http     *http.Server
	loopback bool
	bytes    atomic.Int64 // of bodies in flight
	kept     atomic.Int64 // bytes of events that all streams hold

	ended chan struct{} // closed by Stop
	tidy  sync.WaitGroup

	mu       sync.Mutex
	sessions map[string]*session // of the handshake era, by id
	brief    map[*rpc.Session]struct{}
	inFlight map[string]int // requests, by owner
	stopped  bool
}

// Listen begins to listen; Serve is to follow.
func Listen(ctx context.Context, address string, o Options) (*Server, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	s := &Server{o: o, listener: netutil.LimitListener(shortBuffers{listener}, maxConnections), loopback: Loopback(listener.Addr().String()),
		ended: make(chan struct{}), sessions: map[string]*session{}, brief: map[*rpc.Session]struct{}{}, inFlight: map[string]int{}}
	mux := http.NewServeMux()
	mux.HandleFunc("/mcp", s.serve)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	s.http = &http.Server{Handler: mux, ReadHeaderTimeout: headerPatience, ReadTimeout: bodyPatience, IdleTimeout: idlePatience, MaxHeaderBytes: maxHeader,
		ErrorLog: stdlog.New(warnings{o.Log}, "", 0)}
	return s, nil
}

// Addr is where it listens.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Serve serves until Close.
func (s *Server) Serve() error {
	s.tidy.Go(s.closeIdle)
	if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// shortBuffers is a listener whose connections keep little in the system of what was sent: a stream keeps that itself.
type shortBuffers struct{ net.Listener }

func (l shortBuffers) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(maxWaiting) // where it cannot be set it is larger
	}
	return c, err
}

// warnings takes the log of the standard library's server.
type warnings struct{ log zerolog.Logger }

func (w warnings) Write(line []byte) (int, error) {
	w.log.Warn().Msg("serving HTTP: " + strings.TrimSpace(string(line)))
	return len(line), nil
}

// Stop takes no more requests, lets those in flight go on for Options.Drain, and ends the rest.
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
	s.each((*rpc.Session).Stop)
}

// Close ends the server after Stop: what has been queued is sent, as long as clients read.
func (s *Server) Close() {
	s.Stop()
	s.each((*rpc.Session).Close)
	ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		_ = s.http.Close() // clients that do not read
	}
	s.tidy.Wait()
}

// closeGrace is how long clients may take to read what is left at the end.
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

// serve is the MCP endpoint.
func (s *Server) serve(rw http.ResponseWriter, r *http.Request) {
	w, began := &statusWriter{ResponseWriter: rw}, time.Now()
	owner := ""
	defer func() {
		s.o.Log.Info().Str("method", r.Method).Str("call", w.call).Int("status", w.status).Dur("took", time.Since(began)).
			Str("owner", owner).Str("from", r.RemoteAddr).Msg("http request")
	}()
	if status, problem := s.guard(r); status != 0 {
		refuse(w, status, nil, mcp.CodeInvalidRequest, problem)
		return
	}
	if s.openToPages(w, r) {
		return
	}
	owner, ok := s.owner(r)
	if !ok {
		w.Header().Set("WWW-Authenticate", "Bearer")
		refuse(w, http.StatusUnauthorized, nil, mcp.CodeInvalidRequest, "send a bearer token that the server knows, as Authorization: Bearer TOKEN")
		return
	}
	switch r.Method {
	case http.MethodPost:
		s.post(w, r, owner)
	case http.MethodGet:
		s.get(w, r, owner)
	case http.MethodDelete:
		s.delete(w, r, owner)
	default:
		w.Header().Set("Allow", "POST, GET, DELETE")
		refuse(w, http.StatusMethodNotAllowed, nil, mcp.CodeInvalidRequest, "use POST")
	}
}

// enter counts a request of an owner, unless there are too many.
func (s *Server) enter(owner string) (problem string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.stopped:
		return "the server is shutting down"
	case s.inFlight[owner] >= s.o.MaxInFlight:
		return fmt.Sprintf("too many requests in flight: the limit is %d", s.o.MaxInFlight)
	}
	s.inFlight[owner]++
	return ""
}

func (s *Server) leave(owner string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight[owner]--
}

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

// statusWriter remembers the status of a response.
type statusWriter struct {
	http.ResponseWriter
	status int
	call   string // the JSON-RPC method
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = cmp.Or(w.status, status)
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
