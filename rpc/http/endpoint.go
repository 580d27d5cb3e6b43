package httpserver

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/net/netutil"

	"runnel/internal/headers"
	"runnel/rpc"
	"runnel/rpc/mcp"
)

const (
	// maxConnections is how many connections are open at once: each takes a descriptor, and tasks need some
	// for their commands. Further ones wait in the kernel.
	maxConnections = 2048
	// headerPatience is how long a client may take to send its headers: a slower one only blocks a
	// connection.
	headerPatience = 10 * time.Second
	idlePatience   = 2 * time.Minute
	maxHeader      = 32 << 10
)

// Listen opens the address; call Serve next.
func Listen(ctx context.Context, address string, o Options) (*Server, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	s := &Server{o: o, listener: netutil.LimitListener(shortBuffers{listener}, maxConnections),
		guard: guard{o.Origins, o.host(), Loopback(listener.Addr().String())},
		ended: make(chan struct{}), sessions: map[sessionKey]*session{}, fronts: newFronts(),
		brief: map[*rpc.Session]struct{}{}, inFlight: places{}, waiting: places{},
		limits: sessionLimits{maxSessions, maxSessionsInAll}, held: map[string]int64{}}
	mux := http.NewServeMux()
	mux.HandleFunc("/mcp", s.serve)
	mux.HandleFunc(filePath, s.download)
	mux.HandleFunc("/", elsewhere)
	if o.Authority != nil {
		mux.HandleFunc(metadataPath, s.describe)
		mux.HandleFunc(metadataPath+"/", s.describe)
	}
	if o.Page != nil {
		mux.HandleFunc("GET /{$}", s.show)
	}
	HandleHealth(mux, func(handler http.Handler) http.Handler { return handler }, o.Ready)
	s.http = &http.Server{Handler: mux, ReadHeaderTimeout: headerPatience, ReadTimeout: bodyPatience,
		WriteTimeout: writePatience, IdleTimeout: idlePatience, MaxHeaderBytes: maxHeader,
		ErrorLog: stdlog.New(warnings{o.Log}, "", 0)}
	if o.Certificate != nil {
		s.http.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12,
			GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
				return o.Certificate.Get(), nil
			}}
	}
	return s, nil
}

// HandleHealth adds what balancers ask: /healthz says that the process lives, /readyz whether calls may be
// sent to it; nil = always. guarded wraps both.
func HandleHealth(
	mux *http.ServeMux, guarded func(http.Handler) http.Handler, ready func(context.Context) error,
) {
	handle := func(path string, fine func(context.Context) error) {
		mux.Handle("GET "+path, guarded(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if fine != nil {
				if err := fine(r.Context()); err != nil {
					http.Error(w, err.Error(), http.StatusServiceUnavailable)
					return
				}
			}
			_, _ = io.WriteString(w, "ok\n")
		})))
	}
	handle("/healthz", nil)
	handle("/readyz", ready)
}

// Addr returns the address that it listens on.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Serve serves until Close.
func (s *Server) Serve() error {
	s.mu.Lock()
	if !s.stopped { // otherwise Close may already be waiting for it
		s.tidy.Go(s.closeIdle)
	}
	s.mu.Unlock()
	serve := s.http.Serve
	if s.o.Certificate != nil {
		serve = func(l net.Listener) error { return s.http.ServeTLS(l, "", "") } // and HTTP/2
	}
	if err := serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// shortBuffers is a listener whose connections have small send buffers in the system: the streams keep what
// was sent.
type shortBuffers struct{ net.Listener }

func (l shortBuffers) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetWriteBuffer(maxWaiting) // if it cannot be set it is larger
	}
	return c, err
}

// warnings logs what the standard library's server logs.
type warnings struct{ log zerolog.Logger }

func (w warnings) Write(line []byte) (int, error) {
	w.log.Warn().Msg("serving HTTP: " + strings.TrimSpace(string(line)))
	return len(line), nil
}

// elsewhere answers requests to other paths: those of a client of 2024-11-05, and those whose URL lacks the
// path.
func elsewhere(w http.ResponseWriter, _ *http.Request) {
	refuse(w, http.StatusNotFound, nil, mcp.CodeInvalidRequest,
		"nothing is here: the MCP endpoint is /mcp, for clients of 2025-03-26 or later (HTTP+SSE of "+
			"2024-11-05 is not served)")
}

// serve is the MCP endpoint.
func (s *Server) serve(rw http.ResponseWriter, r *http.Request) {
	w, began := &statusWriter{ResponseWriter: rw, streams: &s.streams}, time.Now()
	owner := ""
	defer func() {
		if w.stream {
			s.streams.Add(-1)
		}
		if s.o.Observe != nil {
			s.o.Observe(r.Method, w.status)
		}
		s.o.Log.Info().Str("method", r.Method).Str("call", w.call).Int("status", w.status).
			Dur("took", time.Since(began)).
			Str("owner", owner).Str("from", s.o.Proxies.client(r)).Msg("http request")
	}()
	if !s.guard.admits(w, r) {
		return
	}
	owner, ok := s.admit(w, r)
	if !ok {
		return
	}
	if problem := malformed(r.Header); problem != "" {
		refuse(w, http.StatusBadRequest, nil, mcp.CodeHeaderMismatch, problem)
		return
	}
	if hops, err := strconv.Atoi(r.Header.Get(headers.Hops)); err == nil && s.o.CheckHops != nil {
		if err := s.o.CheckHops(owner, hops); err != nil {
			refuse(w, http.StatusLoopDetected, nil, mcp.CodeInvalidRequest, err.Error())
			return
		}
	}
	if r.Header.Get(headers.Forwarded) != "" && s.stops() { // another front has sent it, and can serve it
		refuse(w, http.StatusMisdirectedRequest, nil, mcp.CodeBusy, errStopped.Error())
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

// Proxies are the addresses, such as a load balancer's, that are trusted to say who a client is.
type Proxies []netip.Prefix

// ParseProxy parses an address, or a network such as 10.0.0.0/8.
func ParseProxy(text string) (netip.Prefix, error) {
	if ip, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(ip.Unmap(), ip.Unmap().BitLen()), nil
	}
	return netip.ParsePrefix(text)
}

func (p Proxies) has(address string) bool {
	ip, err := netip.ParseAddr(address)
	return err == nil && slices.ContainsFunc(p,
		func(one netip.Prefix) bool { return one.Contains(ip.Unmap()) })
}

// peer returns the address at the other end of the connection.
func peer(r *http.Request) string {
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	return host
}

// client returns the address of a request's client: behind proxies, the one that the first of them names.
func (p Proxies) client(r *http.Request) string {
	client := peer(r)
	named := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for _, before := range slices.Backward(named) {
		before = strings.TrimSpace(before)
		if _, err := netip.ParseAddr(before); err != nil || !p.has(client) {
			break // an unknown proxy may say anything
		}
		client = before
	}
	return client
}

// encrypted reports whether a request's client has sent it over TLS.
func (p Proxies) encrypted(r *http.Request) bool {
	return r.TLS != nil || p.has(peer(r)) && strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}
