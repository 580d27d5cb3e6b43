package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"sync"
	"time"
)

const (
	// maxConnections is how many connections of a child are served at once; others wait in the listener. A
	// package manager opens some tens.
	maxConnections = 128
	// headerTime is how long a child may take to say what it wants.
	headerTime = 30 * time.Second
	// maxHeader bounds the header of a request, in bytes.
	maxHeader = 64 << 10
)

// Proxy reaches hosts for one child. Its exported fields are set before Serve.
type Proxy struct {
	Hosts []Host
	// Ask is asked whether HOST:PORT may be reached that is not in Hosts, once for each; nil = it may not.
	Ask func(ctx context.Context, address string) bool
	// Lookup resolves a name; nil = as this system does.
	Lookup func(ctx context.Context, name string) ([]netip.Addr, error)

	dialer net.Dialer

	asking  sync.Mutex // held while Ask is asked
	answers map[string]bool

	mu      sync.Mutex
	refused []string
}

// New makes a proxy for hosts.
func New(hosts []Host) *Proxy { return &Proxy{Hosts: hosts, answers: map[string]bool{}} }

// Serve serves a listener until ctx ends, and returns when all its connections are closed.
func (p *Proxy) Serve(ctx context.Context, l net.Listener) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()

	requests := &queue{conns: make(chan net.Conn), ctx: ctx, addr: l.Addr()}
	server := &http.Server{
		Handler:           p.handler(),
		ReadHeaderTimeout: headerTime,
		IdleTimeout:       headerTime,
		MaxHeaderBytes:    maxHeader,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ErrorLog:          log.New(io.Discard, "", 0), // what a child sends is not this program's error
	}
	running.Go(func() { _ = server.Serve(requests) })

	slots := make(chan struct{}, maxConnections)
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		conn, err := l.Accept()
		if err != nil {
			return
		}
		running.Go(func() {
			defer func() { <-slots }()
			defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
			closed, done := context.WithCancel(ctx)
			c := &connection{Conn: conn, in: bufio.NewReader(conn), done: done}
			_ = c.SetReadDeadline(time.Now().Add(headerTime))
			first, err := c.in.Peek(1)
			switch {
			case err != nil:
				_ = c.Close()
			case first[0] == socksVersion:
				p.socks(ctx, c)
			default:
				_ = c.SetReadDeadline(time.Time{})
				requests.put(c)
			}
			<-closed.Done()
			_ = c.Close()
		})
	}
}

// connection is one of a child.
type connection struct {
	net.Conn
	in   *bufio.Reader
	done func() // called when it is closed
}

// Read reads what follows the first byte, which has been looked at, and that.
func (c *connection) Read(b []byte) (int, error) { return c.in.Read(b) }

// Close closes the connection.
func (c *connection) Close() error {
	defer c.done()
	return c.Conn.Close()
}

// CloseWrite says that nothing more will be written.
func (c *connection) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}

// queue is the listener of the HTTP server.
type queue struct {
	conns chan net.Conn
	ctx   context.Context
	addr  net.Addr
}

func (q *queue) put(c net.Conn) {
	select {
	case q.conns <- c:
	case <-q.ctx.Done():
	}
}

// Accept returns the next connection that speaks HTTP.
func (q *queue) Accept() (net.Conn, error) {
	select {
	case c := <-q.conns:
		return c, nil
	case <-q.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close does nothing: the queue ends with its context.
func (q *queue) Close() error { return nil }

// Addr returns where the child connects to.
func (q *queue) Addr() net.Addr { return q.addr }

// handler answers CONNECT with a connection, and passes on requests of plain HTTP, each to the host in its
// URL.
func (p *Proxy) handler() http.Handler {
	// Connections to hosts are not kept: another request may be for a host that is no longer allowed.
	plain := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.Out.Host = r.In.URL.Host },
		FlushInterval: -1,
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, address string) (net.Conn,
				error) {
				return p.dial(ctx, address)
			},
			DisableKeepAlives: true, DisableCompression: true,
		},
		ErrorLog:     log.New(io.Discard, "", 0),
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) { answer(w, err) },
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodConnect:
			host, err := p.dial(r.Context(), r.Host)
			if err != nil {
				answer(w, err)
				return
			}
			child, buffered, err := http.NewResponseController(w).Hijack()
			if err != nil {
				_ = host.Close()
				return
			}
			_, err = io.WriteString(child, "HTTP/1.1 200 Connection established\r\n\r\n")
			if early, _ := buffered.Peek(buffered.Reader.Buffered()); err == nil && len(early) > 0 {
				_, err = host.Write(early)
			}
			if err == nil {
				join(r.Context(), child, host)
			}
			_ = child.Close()
			_ = host.Close()
		case r.URL.Scheme == "http" && r.URL.Host != "":
			plain.ServeHTTP(w, r)
		default:
			http.Error(w, "this is a proxy: name the whole URL, or use CONNECT", http.StatusBadRequest)
		}
	})
}

// answer answers a request whose host is not reached.
func answer(w http.ResponseWriter, err error) {
	status := http.StatusBadGateway
	if _, refused := errors.AsType[*refusal](err); refused {
		status = http.StatusForbidden
	}
	http.Error(w, err.Error(), status)
}

// join passes bytes both ways until both sides have ended, one has failed, or ctx has ended.
func join(ctx context.Context, child, host net.Conn) {
	defer context.AfterFunc(ctx, func() { _ = child.Close(); _ = host.Close() })()
	var ways sync.WaitGroup
	pass := func(dst, src net.Conn) {
		_, err := io.Copy(dst, src)
		half, ok := dst.(interface{ CloseWrite() error })
		if err == nil && ok { // the other way may go on
			err = half.CloseWrite()
		}
		if err != nil || !ok {
			_ = child.Close()
			_ = host.Close()
		}
	}
	ways.Go(func() { pass(host, child) })
	pass(child, host)
	ways.Wait()
}

// Begin returns a function that serves a listener in the background, and one that ends that and returns when
// all connections are closed.
func (p *Proxy) Begin(ctx context.Context) (serve func(net.Listener), end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	serve = func(l net.Listener) { running.Go(func() { p.Serve(ctx, l) }) }
	return serve, func() {
		cancel()
		running.Wait()
	}
}

// Variables returns the variables by which programs find a proxy at an address. All have an http: URL: some
// libraries of Python refuse to start where one begins with socks5h:.
func Variables(address string) (vars []string) {
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY",
		"all_proxy"} {
		vars = append(vars, name+"=http://"+address)
	}
	const here = "localhost,127.0.0.1,::1"
	return append(vars, "NO_PROXY="+here, "no_proxy="+here, "NODE_USE_ENV_PROXY=1")
}
