package httpclient

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"runnel/internal/headers"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

const (
	defaultMaxLine = 16 << 20
	// maxRedirects is how many redirects of one request are followed, all on the same host.
	maxRedirects = 5
	// deadAfter is how long an HTTP/2 connection may be silent before it is pinged; TCP's keep-alive probes
	// watch the others.
	deadAfter = 30 * time.Second
	// maxHeaders bounds the headers of a response, in bytes.
	maxHeaders = 256 << 10
)

// link is what all requests to a server share.
type link struct {
	o       Options
	http    *http.Client
	name    string // the URL without anything that may be secret
	secrets *strings.Replacer

	lines    *io.PipeReader // the server's messages
	arrived  *io.PipeWriter // its other end; each write is one line
	ctx      context.Context
	end      context.CancelCauseFunc
	failed   atomic.Pointer[error] // why the link has failed
	noAnswer atomic.Pointer[error] // why a request got no answer from the server

	elsewhere atomic.Bool // nothing is served at the URL, which does not end in /mcp

	mu       sync.Mutex
	session  string
	version  string
	mirrored map[string][]headers.Argument // arguments that go into headers, by tool
}

func newLink(o Options) (*link, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	name := "the URL"
	if u, err := url.Parse(cmp.Or(o.written, o.URL)); err == nil {
		name = (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
		name = strings.NewReplacer("%7B", "{", "%7D", "}").Replace(name) // ${NAME} as it was written
	}
	o.MaxLine = cmp.Or(o.MaxLine, defaultMaxLine)
	l := &link{o: o, name: name, mirrored: map[string][]headers.Argument{}}
	words := slices.Clone(o.hidden)
	for _, values := range o.Header {
		for _, value := range values {
			// "Bearer TOKEN": also the token alone.
			words = append(append(words, strings.Fields(value)...), value)
		}
	}
	secrets := []string{}
	for _, word := range words {
		if len(word) > 6 {
			secrets = append(secrets, word, "[hidden]")
		}
	}
	l.secrets = strings.NewReplacer(secrets...)
	// DefaultTransport has ProxyFromEnvironment, and times for connecting.
	via := http.DefaultTransport.(*http.Transport).Clone()
	via.DisableCompression = true // events come as they are sent
	via.MaxIdleConnsPerHost = 16
	via.MaxResponseHeaderBytes = maxHeaders
	via.HTTP2 = &http.HTTP2Config{SendPingTimeout: deadAfter, PingTimeout: deadAfter / 2}
	l.http = &http.Client{Transport: via, CheckRedirect: sameServer}
	l.ctx, l.end = context.WithCancelCause(context.Background())
	l.lines, l.arrived = io.Pipe()
	return l, nil
}

// sameServer follows a redirect only on the same host, for which the headers are meant, and only with the
// same method.
func sameServer(r *http.Request, via []*http.Request) error {
	from := via[0]
	switch {
	case len(via) > maxRedirects:
		return errors.New("it redirects too often")
	case r.URL.Scheme != from.URL.Scheme || r.URL.Host != from.URL.Host:
		return fmt.Errorf("it redirects to %s://%s, where your headers might not be meant to go: use the "+
			"URL there if you trust it", r.URL.Scheme, r.URL.Host)
	case r.Method != from.Method:
		return fmt.Errorf("it redirects to %s in a way that loses the message: use the URL there", r.URL.Path)
	}
	return nil
}

// newHTTPRequest makes an HTTP request with the headers of the user and the session.
func (l *link) newHTTPRequest(ctx context.Context, method string, body []byte,
	header http.Header) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, l.o.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for _, h := range []http.Header{l.o.Header, header} {
		for name, values := range h {
			r.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	if l.o.Hops != nil {
		r.Header.Set(headers.Hops, strconv.Itoa(l.o.Hops()))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.session != "" {
		r.Header.Set(headers.Session, l.session)
	}
	if l.version != "" && r.Header.Get(headers.Version) == "" {
		r.Header.Set(headers.Version, l.version)
	}
	return r, nil
}

// fail ends the link with a reason, which everything that waits gets.
func (l *link) fail(err error) {
	err = l.redacted(err)
	if l.ctx.Err() == nil && l.failed.CompareAndSwap(nil, &err) {
		l.end(err)
		_ = l.arrived.CloseWithError(err) // it never fails
	}
}

// redacted returns an error that names the server and shows no secrets.
func (l *link) redacted(err error) error {
	return fmt.Errorf("%s: %s", l.name, l.secrets.Replace(err.Error()))
}

// Err returns the reason why the transport has failed, nil if it has not.
func (l *link) Err() error {
	if err := l.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// opened reports whether the server has answered any request with a result.
func (l *link) opened() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.version != ""
}

const (
	eventStream = "text/event-stream"
	jsonType    = "application/json"
)

// headersOf returns the headers for a line, and whether the line is of 2026-07-28: "The Streamable HTTP
// transport mirrors selected JSON-RPC body fields into HTTP headers" ("Request Metadata").
func (l *link) headersOf(method string, params []byte) (header http.Header, stateless bool) {
	header = http.Header{"Content-Type": {jsonType}, "Accept": {jsonType + ", " + eventStream}}
	version := rawjson.StringMember(rawjson.Member(params, "_meta"), mcp.MetaProtocolVersion)
	if version == "" {
		return header, false
	}
	header.Set(headers.Version, version)
	header.Set(headers.Method, headers.Encode(method))
	if member, ok := headers.Named[method]; ok {
		header.Set(headers.Name, headers.Encode(rawjson.StringMember(params, member)))
	}
	if method != "tools/call" {
		return header, true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.mirrored[rawjson.StringMember(params, "name")] {
		if text, ok := a.Value(rawjson.Member(params, "arguments")); ok {
			header.Set(a.Header, headers.Encode(text))
		}
	}
	return header, true
}

// learn takes from a response what later requests must repeat in headers: the version, the session, the
// arguments of tools. version is that of the request if it is of 2026-07-28, else "". It returns the response
// without tools that cannot be called.
func (l *link) learn(method, version string, response *http.Response, message []byte) []byte {
	result := rawjson.Member(message, "result")
	if response == nil || !rawjson.IsObject(result) {
		return message
	}
	l.mu.Lock()
	switch {
	case l.version != "":
	case method == "initialize":
		l.version, l.session = rawjson.StringMember(result, "protocolVersion"),
			response.Header.Get(headers.Session)
	default:
		l.version = version
	}
	l.mu.Unlock()
	list := rawjson.Member(result, "tools")
	if version == "" || method != "tools/list" || len(list) == 0 || list[0] != '[' {
		return message
	}
	fine, wrong := []json.RawMessage{}, false
	for it := rawjson.Over(list); it.Next(); {
		tool := it.Value
		name := rawjson.StringMember(tool, "name")
		arguments, err := headers.Arguments(rawjson.Member(tool, "inputSchema"))
		if err != nil { // "the client MUST exclude the invalid tool from the result of tools/list"
			wrong = true
			l.o.Log.Warn().Str("tool", name).Err(err).
				Msg("http: leaving out a tool whose x-mcp-header is not valid")
			continue
		}
		fine = append(fine, tool)
		l.mu.Lock()
		delete(l.mirrored, name)
		if len(arguments) > 0 && len(l.mirrored) < maxMirrored {
			l.mirrored[name] = arguments
		}
		l.mu.Unlock()
	}
	if !wrong {
		return message
	}
	return rawjson.WithMember(message, "result", rawjson.WithMember(result, "tools", fine))
}

// maxMirrored bounds the tools whose headers are kept.
const maxMirrored = 10_000
