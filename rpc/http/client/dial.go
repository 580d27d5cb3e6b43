package httpclient

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

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
