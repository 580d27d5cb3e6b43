package httpclient

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"runnel/internal/headers"
	"runnel/internal/pause"
	"runnel/internal/sse"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// refusalGrace is how long a link whose session has ended stays, so that each of its requests gets its own
// answer.
const refusalGrace = 250 * time.Millisecond

// maxRefusal is how much of a refusal is read.
const maxRefusal = 64 << 10

// request is a line to the server, with its answer, or the standing stream.
type request struct {
	*link
	line, id, params []byte // id and params are nil if there are none
	method           string
	header           http.Header
	stateless        bool // of 2026-07-28
	notice           bool // it gets no answer
	standing         bool // it has no line: the standing stream

	ctx       context.Context
	stop      context.CancelFunc
	sent      chan struct{} // closed when the server has the line
	markSent  func()
	cancelled atomic.Bool // nobody waits for the answer
	begun     func()      // ends Transport.opening; only initialize and the standing stream have it

	// Owned by run.
	sentID    []byte // the id under which the line was sent last
	answered  bool
	lost      bool   // the connection was lost
	stoodOpen bool   // the standing stream has been open
	lastEvent string // the id of the last event that came; "" = there is none to resume from
	tries     tries
}

func (l *link) newRequest(line []byte) *request {
	c := &request{link: l, line: line, sent: make(chan struct{})}
	if _, ok := rawjson.Scan(line); ok && rawjson.IsObject(line) {
		c.id = rawjson.Member(line, "id")
		c.method = rawjson.StringMember(line, "method")
		c.params = rawjson.Member(line, "params")
	}
	c.sentID = c.id
	c.markSent = sync.OnceFunc(func() { close(c.sent) })
	c.ctx, c.stop = context.WithCancel(l.ctx)
	c.header, c.stateless = l.headersOf(c.method, c.params)
	return c
}

// run sends the line, again if need be, until it has been answered.
func (c *request) run() {
	defer c.stop()
	defer c.markSent()
	for {
		again, err := c.exchange()
		switch {
		case err == nil || c.ctx.Err() != nil && !c.notice, c.cancelled.Load():
			return
		case again && c.tries.wait(c.ctx):
			c.o.Log.Debug().Str("call", c.method).AnErr("why", c.redacted(err)).Msg("http: connecting again")
			continue
		case c.standing && again:
			c.fail(err)
		case c.notice:
			c.o.Log.Warn().Str("call", c.method).AnErr("why", c.redacted(err)).
				Msg("http: the server does not take a message")
		case !c.standing && !c.answered:
			err = c.redacted(err)
			c.noAnswer.Store(&err)
			code := mcp.CodeInternalError
			if c.lost && c.method == "subscriptions/listen" {
				code = mcp.CodeStreamLost // the subscriber needs to know that it may have missed something
			}
			c.refuse(code, err)
		}
		return
	}
}

// refuse answers the request with an error.
func (c *request) refuse(code int, err error) {
	refusal := rpc.Refusal(nil, rpc.Errorf(code, "%v", err))
	// Any id is sent back; this fails only when the reader has closed.
	_ = c.deliver(rawjson.WithMember(refusal, "id", json.RawMessage(c.sentID)), nil)
}

// exchange sends the line once, or resumes its stream, and delivers what arrives. again reports whether the
// line may be sent again after err.
func (c *request) exchange() (again bool, err error) {
	method := http.MethodPost
	body := c.line
	header := c.header
	if resumes := c.lastEvent != ""; resumes || c.standing {
		method = http.MethodGet
		body = nil
		header = http.Header{"Accept": {eventStream}}
		if resumes {
			header.Set("Last-Event-Id", c.lastEvent)
		}
	} else if c.tries.begun && c.id != nil && !c.stateless { // the first id may still be in flight
		c.sentID = rawjson.Encode(fmt.Sprintf("%s again %d", c.id, time.Now().UnixNano()))
		body = rawjson.WithMember(c.line, "id", json.RawMessage(c.sentID))
	}
	r, err := c.newHTTPRequest(httptrace.WithClientTrace(c.ctx,
		&httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { c.markSent() }}), method,
		body, header)
	if err != nil {
		return false, err
	}
	response, err := c.http.Do(r)
	if c.standing {
		c.begun()
	}
	if c.lost = err != nil; c.lost {
		if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) { // it quotes the URL
			err = wrapped.Err
		}
		if !c.opened() && c.ctx.Err() == nil {
			c.fail(err)
		}
		dial := (*net.OpError)(nil)
		return c.harmless() || errors.As(err, &dial) && dial.Op == "dial", err
	}
	defer response.Body.Close()
	switch kind := contentType(response); {
	case response.StatusCode >= 300:
		return c.refused(r, response)
	case response.StatusCode == http.StatusOK && kind == eventStream:
		return c.events(response)
	case c.notice:
		return false, nil
	case response.StatusCode == http.StatusOK && kind == jsonType && method == http.MethodPost:
		text, err := io.ReadAll(io.LimitReader(response.Body, int64(c.o.MaxLine)+1))
		switch {
		case len(text) > c.o.MaxLine:
			return false, c.tooLong()
		case err != nil:
			return c.harmless(), errLost
		}
		if err := c.deliver(text, response); err != nil {
			return false, err
		}
	}
	if !c.answered {
		return false, fmt.Errorf("the server's answer is not an MCP response: %s, %q", response.Status,
			contentType(response))
	}
	return false, nil
}

var errLost = errors.New("the connection was lost before the server answered; it may have carried out the request")

func (c *request) tooLong() error {
	return fmt.Errorf("the response is too long: the limit is %d bytes a message", c.o.MaxLine)
}

// harmless reports whether the line may be sent twice without telling anyone. A tool would run twice; a
// subscription would miss something.
func (c *request) harmless() bool {
	return c.resumes() || c.notice ||
		c.method != "" && c.method != "tools/call" && c.method != "subscriptions/listen"
}

// resumes reports whether the stream continues where it was lost. A line that is sent again begins anew, and
// is not tried for ever.
func (c *request) resumes() bool { return c.standing || c.lastEvent != "" }

// events delivers the events of a stream.
func (c *request) events(response *http.Response) (again bool, err error) {
	c.stoodOpen = c.standing
	if c.resumes() {
		c.tries.connected()
	}
	var unusable error
	err = sse.Read(bufio.NewReaderSize(response.Body, 64<<10), c.o.MaxLine, func(e sse.Event) error {
		if c.resumes() && (c.standing || len(e.Data) > 0) {
			c.tries.received()
		}
		if e.Retry >= 0 {
			c.tries.least = e.Retry
		}
		if len(e.Data) > 0 && (e.Name == "" || e.Name == "message") {
			if err := c.deliver(e.Data, response); err != nil && unusable == nil && c.ctx.Err() == nil {
				unusable = err
				c.o.Log.Warn().Str("call", c.method).AnErr("why", c.redacted(err)).
					Msg("http: an event of the server cannot be used")
			}
		}
		// "Resumable SSE streams via Last-Event-ID are not supported" in 2026-07-28.
		if e.ID != "" && !c.stateless {
			c.lastEvent = e.ID
		}
		return nil
	})
	switch {
	case errors.Is(err, sse.ErrTooLong):
		if c.standing {
			c.fail(c.tooLong())
		}
		return false, c.tooLong()
	case c.standing:
		c.tries.least = max(c.tries.least, leastStanding)
		return true, errLost
	case c.notice, c.answered && (err == nil || c.lastEvent == ""):
		return false, nil
	case unusable != nil: // it may have been the answer
		return false, unusable
	}
	c.lost = true
	return c.harmless(), errLost
}

// deliver passes a message to the reader, and notes whether it answers the request.
func (c *request) deliver(message []byte, response *http.Response) error {
	message = bytes.TrimSpace(message)
	if bytes.ContainsAny(message, "\r\n") {
		var line bytes.Buffer
		if err := json.Compact(&line, message); err != nil {
			return fmt.Errorf("the server's answer is not JSON: %w", err)
		}
		message = line.Bytes()
	}
	if _, ok := rawjson.Scan(message); !ok {
		return errors.New("the server's answer is not JSON")
	}
	if c.id != nil && rawjson.IsObject(message) && rawjson.Member(message, "method") == nil &&
		bytes.Equal(rawjson.Member(message, "id"), c.sentID) || message[0] == '[' {
		c.answered = true
		if !bytes.Equal(c.id, c.sentID) {
			message = rawjson.WithMember(message, "id", json.RawMessage(c.id))
		}
		message = c.learn(c.method, c.header.Get(headers.Version), response, message)
		if c.begun != nil {
			c.begun()
		}
	}
	_, err := c.arrived.Write(append(message[:len(message):len(message)], '\n'))
	return err
}

// refused handles a response with an error status.
func (c *request) refused(r *http.Request, response *http.Response) (again bool, err error) {
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxRefusal)) // or as much as arrives
	if _, ok := rawjson.Scan(text); !ok {
		text = nil
	}
	says, status := rawjson.Member(text, "error"), response.StatusCode
	err = errors.New(response.Status)
	if message := rawjson.StringMember(says, "message"); message != "" {
		err = fmt.Errorf("%s: %.300s", response.Status, message)
	}
	switch {
	case c.standing && !c.stoodOpen && status < http.StatusBadGateway && status != http.StatusConflict &&
		status != http.StatusTooManyRequests:
		// A server without such a stream should answer 405, but not all do.
		c.o.Log.Debug().AnErr("why", c.redacted(err)).
			Msg("http: the server opens no standing stream: continuing without")
		return false, err
	case status == http.StatusNotFound && r.Header.Get(headers.Session) != "" && !c.stateless:
		// "it MUST start a new session": the transport's user opens another one.
		err = errors.New("the server has ended the session")
		if c.id != nil && r.Method == http.MethodPost {
			c.refuse(mcp.CodeSessionEnded, c.redacted(err))
		}
		// Requests that were sent with this one are refused as well, and then known not to have run.
		time.AfterFunc(refusalGrace, func() { c.fail(err) })
		return false, err
	case (status == http.StatusNotFound || status == http.StatusMethodNotAllowed) && !c.opened() &&
		!bytes.Equal(rawjson.Member(text, "id"), c.sentID) && path.Base(r.URL.Path) != "mcp":
		c.elsewhere.Store(true)
		return false, fmt.Errorf("%w. The URL of an MCP server often ends in /mcp", err)
	case status == http.StatusUnauthorized:
		err = fmt.Errorf("%w. Send it a token that it knows, in a header such as Authorization: Bearer TOKEN",
			err)
	case status == http.StatusForbidden, status == http.StatusProxyAuthRequired:
	case r.Method == http.MethodGet && status == http.StatusConflict:
		// It has not noticed yet that the previous connection is lost.
		return true, err
	case c.standing && c.lastEvent != "" && status < 500 && status != http.StatusTooManyRequests:
		c.lastEvent = "" // the missed events are no longer kept
		return true, err
	case r.Method == http.MethodGet && status < 500 && status != http.StatusTooManyRequests:
		return false, fmt.Errorf("the connection was lost, and the server does not let it be resumed: %w",
			err)
	case rawjson.IsObject(says) && r.Method == http.MethodPost:
		if c.notice {
			return false, err
		}
		return false, c.deliver(rawjson.WithMember(text, "id", json.RawMessage(c.sentID)), response)
	case status < 500 && status != http.StatusTooManyRequests:
		return false, err
	case c.opened():
		// A gateway before the server says so.
		c.lost = status >= http.StatusBadGateway && status <= http.StatusGatewayTimeout
		return c.harmless() || c.lost && c.method == "subscriptions/listen" ||
			status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable, err
	}
	if !c.opened() || c.standing {
		c.fail(err)
	}
	return false, err
}

func contentType(response *http.Response) string {
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	return strings.ToLower(kind)
}

const (
	// patience is how long a server may be unreachable before requests to it fail.
	patience = 30 * time.Second
	// firstPause and longestPause bound the pauses between attempts to reach it.
	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second
	// leastStanding is the least pause after the server has ended the standing stream: some end it at once,
	// each time.
	leastStanding = 500 * time.Millisecond
)

// tries paces the attempts to connect again after a connection was lost. The zero value is ready for use.
type tries struct {
	since time.Time     // the first loss in a row; zero = none
	pause time.Duration // before the next attempt
	least time.Duration // the server's own pause: "The client MUST respect the retry field"
	begun bool          // there was an attempt
}

// connected notes that the server can be reached.
func (r *tries) connected() { r.since = time.Time{} }

// received notes that an event has arrived.
func (r *tries) received() { r.since, r.pause = time.Time{}, 0 }

// wait waits until the next attempt. It reports false if there should be none.
func (r *tries) wait(ctx context.Context) bool {
	r.begun = true
	if r.since.IsZero() {
		r.since = time.Now()
	} else if time.Since(r.since) > patience {
		return false
	}
	r.pause = max(r.pause, firstPause)
	// The pause is random, so that the clients of a server do not connect at the same moment.
	rest := max(r.least, r.pause/2+rand.N(r.pause/2))
	r.pause = min(2*r.pause, longestPause)
	return pause.For(ctx, rest)
}
