package httpclient

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"runnel/internal/headers"
	"runnel/rpc"
	"runnel/rpc/mcp"
)

// Dial connects to a server and negotiates a protocol version: that of d or, if d names none, one of the
// handshake era, whose streams can be resumed when a connection is lost, else the newest one.
func Dial(ctx context.Context, o Options, d rpc.DialOptions) (*rpc.Client, error) {
	versions := []string{d.Version}
	if d.Version == "" {
		versions = []string{mcp.NewestHandshake().Name, mcp.Versions[len(mcp.Versions)-1].Name}
	}
	var t *Transport
	var first error
	for _, version := range versions {
		var err error
		if t, err = Open(o); err != nil {
			return nil, err
		}
		d.Version = version
		d.In = t
		d.Out = t
		d.Unordered = true
		client, err := rpc.Dial(ctx, d)
		if err == nil {
			return client, nil
		}
		if failed := t.Err(); failed != nil {
			return nil, failed
		}
		if noAnswer := t.noAnswer.Load(); noAnswer != nil {
			err = *noAnswer
		}
		if first == nil {
			first = err
		}
		if ctx.Err() != nil {
			return nil, err
		}
		if t.speaksSSE(ctx) {
			return nil, fmt.Errorf("%s: the server speaks HTTP+SSE of 2024-11-05, which runnel does not: "+
				"ask for the URL of its Streamable HTTP, often one that ends in /mcp", t.name)
		}
	}
	if t.elsewhere.Load() && servesMCP(ctx, o, d.Info) {
		return nil, fmt.Errorf("%w, and this server answers at %s/mcp: use that URL", first,
			strings.TrimSuffix(t.name, "/"))
	}
	return nil, first
}

// lookTime is how long it may take to find out why a server cannot be used.
const lookTime = 5 * time.Second

// servesMCP reports whether a server answers at the URL with /mcp added. Dial only says so, because the user
// has not named that URL.
func servesMCP(ctx context.Context, o Options, info any) bool {
	u, err := url.Parse(o.URL)
	if err != nil {
		return false
	}
	o.URL = u.JoinPath("mcp").String()
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	client, err := Dial(ctx, o, rpc.DialOptions{Info: info})
	if err == nil {
		_ = client.Close()
	}
	return err == nil
}

// speaksSSE reports whether a server that took no POST speaks HTTP+SSE of 2024-11-05: a GET opens "an SSE
// stream and return[s] an endpoint event as the first event" (basic/transports, "Backwards Compatibility").
func (t *Transport) speaksSSE(ctx context.Context) bool {
	if t.noAnswer.Load() == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	r, err := t.newHTTPRequest(ctx, http.MethodGet, nil, http.Header{"Accept": {eventStream}})
	if err != nil {
		return false
	}
	response, err := t.http.Do(r)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	lines := bufio.NewReader(response.Body)
	first, err := lines.ReadSlice('\n')
	return err == nil && contentType(response) == eventStream &&
		string(first[:min(len(first), 15)]) == "event: endpoint"
}

// Options say which server to connect to. Proxies are taken from the environment (HTTPS_PROXY, NO_PROXY);
// certificates are checked against the system's roots.
type Options struct {
	URL     string
	Header  http.Header // sent with every request; its values are never shown
	MaxLine int         // bytes of the longest message from the server; 0 = 16 MiB
	// Returns how many runnels stand before the server, for headers.Hops; nil = the header is not sent.
	Hops func() int
	Log  zerolog.Logger

	written string   // the URL as it may be shown, without the values of variables; "" = as URL
	hidden  []string // the values of variables in the URL
}

var variable = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\$\{[A-Za-z_][A-Za-z0-9_]*\}`)
})

// NewOptions makes Options for a URL and headers that a user wrote. ${NAME} in the URL and in the value of a
// header is replaced by a variable, so that no secret need be written there.
func NewOptions(url string, header map[string]string, variables func(name string) string,
	log zerolog.Logger) (o Options, err error) {
	var values []string
	filled := func(what, text string) string {
		return variable().ReplaceAllStringFunc(text, func(reference string) string {
			name := reference[2 : len(reference)-1]
			value := variables(name)
			values = append(values, value)
			if value == "" {
				err = fmt.Errorf("the %s needs the variable %s, which %w", what, name, ErrNotSet)
			}
			return value
		})
	}
	o = Options{URL: filled("URL", url), Header: http.Header{}, Log: log, written: url}
	o.hidden = values
	if err != nil {
		return o, err // without the variable, the URL may not be valid
	}
	for name, value := range header {
		o.Header.Set(name, filled("header "+name, value))
	}
	return o, cmp.Or(o.check(), err)
}

// ErrNotSet is returned if a variable of a URL or a header is not set.
var ErrNotSet = errors.New("is not set")

// check returns an error for a URL or a header that cannot be sent, and for a header that the transport sends
// itself.
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
		case !headers.IsToken(name):
			// The name is not shown: it may be a secret that lacks its colon.
			return errors.New("the name of a header has characters that cannot be sent")
		case slices.Contains([]string{"Accept", "Content-Type", "Content-Length", "Connection",
			"Transfer-Encoding", "Host", "Last-Event-Id"}, name), strings.HasPrefix(name, "Mcp-"):
			return fmt.Errorf("the header %s is runnel's own to send", name)
		case slices.ContainsFunc(values, func(v string) bool { return !headers.IsValue(v) }):
			return fmt.Errorf("the value of the header %s has characters that cannot be sent", name)
		}
	}
	return nil
}
