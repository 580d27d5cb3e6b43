package httpclient

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/net/http/httpguts"

	"runnel/rpc/rawjson"
)

// Options say which server to reach. Proxies are those of the environment (HTTPS_PROXY, NO_PROXY), certificates are checked by the
// system's roots.
type Options struct {
	URL     string
	Header  http.Header // goes with every request; its values are shown nowhere
	MaxLine int         // bytes of the longest message that comes; 0 = 16 MiB
	Log     zerolog.Logger
}

const (
	defaultMaxLine = 16 << 20
	// patience is how long a server may be out of reach before what was asked of it fails.
	patience = 30 * time.Second
	// noticePatience is how long it may take to take a message that it does not answer.
	noticePatience = 30 * time.Second
	// deletePatience is how long it may take to end a session.
	deletePatience = 3 * time.Second
	// sentPatience is how long a cancellation waits for its request to be sent: a server may be out of reach.
	sentPatience = time.Second
	// maxRedirects of one request, all to where the URL points.
	maxRedirects = 5
	// deadAfter is how long an HTTP/2 connection may be silent before it is pinged; TCP's own probes watch over the others.
	deadAfter = 30 * time.Second
	// maxHeaders bounds the headers of a response, in bytes.
	maxHeaders = 256 << 10
)

// Transport is a server at a URL as two pipes: what is written are lines for the server, what is read are lines of its own.
type Transport struct {
	o    Options
	http *http.Client
	name string // the URL without what may be secret
	hide *strings.Replacer

	lines   *io.PipeReader // gives Read what comes
	arrived *io.PipeWriter // each write is one line
	ctx     context.Context
	end     context.CancelCauseFunc
	failed  atomic.Pointer[error] // why it has ended by itself
	odd     atomic.Pointer[error] // why a request has no answer of the server's
	work    sync.WaitGroup
	asked   sync.WaitGroup // requests without an answer
	closing sync.Once

	// Owned by Write.
	partial []byte          // the beginning of a line
	opening context.Context // ends with the answer to initialize, which says what later lines need; nil: none was sent

	mu       sync.Mutex
	session  string
	version  string
	requests map[string]*request // those without an answer, by id as it was written
	mirrored map[string][]mirror // arguments that go into headers, by tool
}

// Open makes a transport. It connects to nothing yet.
func Open(o Options) (*Transport, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	u, _ := url.Parse(o.URL) // it can be
	o.MaxLine = cmp.Or(o.MaxLine, defaultMaxLine)
	t := &Transport{o: o, name: (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String(), requests: map[string]*request{}, mirrored: map[string][]mirror{}}
	secrets := []string{}
	for _, values := range o.Header {
		for _, value := range values {
			for _, word := range append(strings.Fields(value), value) { // "Bearer TOKEN": also the token alone
				if len(word) > 6 {
					secrets = append(secrets, word, "[hidden]")
				}
			}
		}
	}
	t.hide = strings.NewReplacer(secrets...)
	via := http.DefaultTransport.(*http.Transport).Clone() // with ProxyFromEnvironment, and times for connecting
	via.DisableCompression = true                          // events come as they are sent
	via.MaxIdleConnsPerHost = 16
	via.MaxResponseHeaderBytes = maxHeaders
	via.HTTP2 = &http.HTTP2Config{SendPingTimeout: deadAfter, PingTimeout: deadAfter / 2}
	t.http = &http.Client{Transport: via, CheckRedirect: sameServer}
	t.ctx, t.end = context.WithCancelCause(context.Background())
	t.lines, t.arrived = io.Pipe()
	return t, nil
}

var variable = regexp.MustCompile(`\$\{[A-Za-z_][A-Za-z0-9_]*\}`)

// NewOptions are those of a server at a URL. ${NAME} in the value of a header is a variable, so that a token need not stand there.
func NewOptions(url string, headers map[string]string, variables func(name string) string, log zerolog.Logger) (o Options, err error) {
	o = Options{URL: url, Header: http.Header{}, Log: log}
	for name, value := range headers {
		o.Header.Set(name, variable.ReplaceAllStringFunc(value, func(reference string) string {
			variable := reference[2 : len(reference)-1]
			value := variables(variable)
			if value == "" {
				err = fmt.Errorf("the header %s needs the variable %s, which %w", name, variable, ErrNotSet)
			}
			return value
		}))
	}
	return o, cmp.Or(o.check(), err)
}

// ErrNotSet means that a header lacks a variable.
var ErrNotSet = errors.New("is not set")

// check says what is wrong with the URL or the headers: they cannot be sent, or say what the transport says itself.
func (o *Options) check() error {
	u, err := url.Parse(o.URL)
	switch {
	case err != nil:
		return errors.New("the URL cannot be read: " + errors.Unwrap(err).Error())
	case u.Scheme != "https" && u.Scheme != "http" || u.Host == "":
		return errors.New("the URL must begin with https:// or http://, then a host")
	}
	for name, values := range o.Header {
		name = http.CanonicalHeaderKey(name)
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			return errors.New("the name of a header has characters that cannot be sent") // which may be a value that lacks its colon
		case slices.Contains([]string{"Accept", "Content-Type", "Content-Length", "Connection", "Transfer-Encoding", "Host", "Last-Event-Id"}, name), strings.HasPrefix(name, "Mcp-"):
			return fmt.Errorf("the header %s is runnel's own to send", name)
		case slices.ContainsFunc(values, func(v string) bool { return !httpguts.ValidHeaderFieldValue(v) }):
			return fmt.Errorf("the value of the header %s has characters that cannot be sent", name)
		}
	}
	return nil
}

// sameServer follows a redirect only to where the headers are meant to go, and only as the request that it was.
func sameServer(r *http.Request, via []*http.Request) error {
	from := via[0]
	switch {
	case len(via) > maxRedirects:
		return errors.New("it redirects too often")
	case r.URL.Scheme != from.URL.Scheme || r.URL.Host != from.URL.Host:
		return fmt.Errorf("it redirects to %s://%s, where your headers might not be meant to go: use the URL there if you trust it", r.URL.Scheme, r.URL.Host)
	case r.Method != from.Method:
		return fmt.Errorf("it redirects to %s in a way that loses the message: use the URL there", r.URL.Path)
	}
	return nil
}

// request makes an HTTP request with the headers of the user and the session.
func (t *Transport) request(ctx context.Context, method string, body []byte, header http.Header) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, t.o.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for _, h := range []http.Header{t.o.Header, header} {
		for name, values := range h {
			r.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.session != "" {
		r.Header.Set(sessionHeader, t.session)
	}
	if t.version != "" && r.Header.Get(versionHeader) == "" {
		r.Header.Set(versionHeader, t.version)
	}
	return r, nil
}

// Name is the URL without what may be secret.
func (t *Transport) Name() string { return t.name }

// Read gives what the server sends, in lines.
func (t *Transport) Read(p []byte) (int, error) { return t.lines.Read(p) }

// Write sends lines. One that gets no answer has been taken by the server when Write returns; requests go on.
func (t *Transport) Write(p []byte) (int, error) {
	t.partial = append(t.partial, p...)
	for {
		line, rest, whole := bytes.Cut(t.partial, []byte("\n"))
		switch {
		case t.ctx.Err() != nil:
			return 0, context.Cause(t.ctx)
		case whole:
			t.send(bytes.Clone(bytes.TrimSpace(line)))
			t.partial = append(t.partial[:0], rest...)
		case len(line) > t.o.MaxLine:
			t.fail(fmt.Errorf("a line for the server is too long: the limit is %d bytes", t.o.MaxLine))
		default:
			return len(p), nil
		}
	}
}

// Finish waits until all requests are answered, or ctx ends.
func (t *Transport) Finish(ctx context.Context) {
	answered := make(chan struct{})
	go func() { // ends with the requests, at Close at the latest
		t.asked.Wait()
		close(answered)
	}()
	select {
	case <-answered:
	case <-ctx.Done():
	}
}

// Close gives up what is in flight, and ends the session.
func (t *Transport) Close() error {
	t.closing.Do(func() {
		t.mu.Lock()
		t.end(errClosed)
		t.mu.Unlock()
		_ = t.arrived.Close() // it never fails
		t.work.Wait()
		if t.session != "" { // "Clients that no longer need a particular session SHOULD send an HTTP DELETE"
			ctx, cancel := context.WithTimeout(context.Background(), deletePatience)
			defer cancel()
			if r, err := t.request(ctx, http.MethodDelete, nil, nil); err == nil {
				if response, err := t.http.Do(r); err == nil {
					response.Body.Close()
				}
			}
		}
		t.http.CloseIdleConnections()
	})
	return nil
}

// fail ends the transport: all that waits fails with the reason.
func (t *Transport) fail(err error) {
	err = t.dressed(err)
	if t.ctx.Err() == nil && t.failed.CompareAndSwap(nil, &err) {
		t.end(err)
		_ = t.arrived.CloseWithError(err) // it never fails
	}
}

// dressed is an error as it may be shown.
func (t *Transport) dressed(err error) error {
	return fmt.Errorf("%s: %s", t.name, t.hide.Replace(err.Error()))
}

// Err is why the transport has ended by itself, nil if it has not.
func (t *Transport) Err() error {
	if err := t.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// send sends a line.
func (t *Transport) send(line []byte) {
	if len(line) == 0 {
		return
	}
	if t.opening != nil {
		<-t.opening.Done()
	}
	c := t.newRequest(line)
	stop := func() {}
	if c.method == "notifications/cancelled" {
		if stop = t.cancel(c.params); stop == nil {
			return
		}
	}
	if c.id != nil && c.method != "" || line[0] == '[' {
		if c.method == "initialize" {
			t.opening, c.begun = context.WithCancel(c.ctx)
		}
		t.mu.Lock()
		t.requests[string(c.id)] = c
		t.mu.Unlock()
		t.asked.Add(1)
		t.start(func() {
			c.run()
			t.asked.Done()
			t.mu.Lock()
			defer t.mu.Unlock()
			if t.requests[string(c.id)] == c {
				delete(t.requests, string(c.id))
			}
		})
		return
	}
	ctx, cancel := context.WithTimeout(t.ctx, noticePatience)
	defer cancel()
	c.ctx, c.notice = ctx, true
	c.run()
	stop()
	if c.method == "notifications/initialized" && t.ctx.Err() == nil {
		t.start((&request{Transport: t, standing: true, ctx: t.ctx, stop: func() {}, markSent: func() {}}).run)
	}
}

// start starts what Close waits for, unless it has begun.
func (t *Transport) start(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx.Err() == nil {
		t.work.Go(f)
	}
}

// cancel gives up a request that is cancelled. It returns what gives up its stream once the server has been told, for servers that keep it
// open; nil if the server is not to be told: "closing the SSE response stream is itself the cancellation signal" in 2026-07-28.
func (t *Transport) cancel(params []byte) (stop func()) {
	t.mu.Lock()
	c := t.requests[string(rawjson.Member(params, "requestId"))]
	t.mu.Unlock()
	if c == nil || c.id == nil {
		return func() {}
	}
	c.cancelled.Store(true)
	if c.stateless {
		c.stop()
		return nil
	}
	select { // it must not overtake the request
	case <-c.sent:
	case <-c.ctx.Done():
	case <-time.After(sentPatience):
		c.stop() // it is not sent at all
	}
	return c.stop
}

// opened reports whether the server has answered anything well.
func (t *Transport) opened() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.version != ""
}
