package upstream

import (
	"context"
	"time"

	"runnel/rpc/mcp"
)

// Probed is what a server said when it was tried.
type Probed struct {
	Server   mcp.Implementation
	Protocol string
	Tools    int // that runnel would serve
	After    time.Duration
}

// Probe starts the server as a session would, asks for its tools, and ends it. The error says why it cannot be used.
func (u *Server) Probe(ctx context.Context, limit time.Duration) (Probed, error) {
	defer context.AfterFunc(ctx, u.stop)()
	defer u.stop()
	u.times.start = limit
	began := time.Now()
	l, has, err := u.start()
	if err != nil {
		return Probed{}, err
	}
	p := Probed{l.client.Server(), l.client.Version().Name, len(u.wanted(has.Tools, false)), time.Since(began)}
	_ = l.client.Close() // how it ends is its own affair
	return p, nil
}
