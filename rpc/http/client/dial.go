package httpclient

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"time"

	"runnel/rpc"
	"runnel/rpc/mcp"
)

// Dial reaches a server and agrees with it on a protocol version: on that of d, else on one of the handshake era, whose streams can be
// resumed when a connection is lost, else on the newest one.
func Dial(ctx context.Context, o Options, d rpc.DialOptions) (*rpc.Client, error) {
	versions := []string{d.Version}
	if d.Version == "" {
		versions = []string{mcp.NewestHandshake().Name, mcp.Versions[len(mcp.Versions)-1].Name}
	}
	var first error
	for _, version := range versions {
		t, err := Open(o)
		if err != nil {
			return nil, err
		}
		d.Version, d.In, d.Out, d.Unordered = version, t, t, true
		client, err := rpc.Dial(ctx, d)
		if err == nil {
			return client, nil
		}
		if failed := t.Err(); failed != nil {
			return nil, failed
		}
		if odd := t.odd.Load(); odd != nil {
			err = *odd
		}
		if first == nil {
			first = err
		}
		if ctx.Err() != nil {
			return nil, err
		}
		if t.speaksSSE(ctx) {
			return nil, fmt.Errorf("%s: the server speaks HTTP+SSE of 2024-11-05, which runnel does not: ask for the URL of its Streamable HTTP, often one that ends in /mcp", t.name)
		}
	}
	return nil, first
}

// sseTime is how long a server of 2024-11-05 may take to show that it is one.
const sseTime = 5 * time.Second

// speaksSSE reports whether a server that took no POST is of 2024-11-05: a GET opens "an SSE stream and return[s] an endpoint event as the
// first event" (basic/transports, "Backwards Compatibility").
func (t *Transport) speaksSSE(ctx context.Context) bool {
	if t.odd.Load() == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, sseTime)
	defer cancel()
	r, err := t.request(ctx, http.MethodGet, nil, http.Header{"Accept": {eventStream}})
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
	return err == nil && contentType(response) == eventStream && string(first[:min(len(first), 15)]) == "event: endpoint"
}
