package rpc

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"runnel/rpc/mcp"
)

// testPeer is the client's side of a session, over pipes without any buffer.
type testPeer struct {
	t    *testing.T
	in   *io.PipeWriter
	out  *io.PipeReader
	stop context.CancelFunc
	err  chan error // what Serve returned

	mu    sync.Mutex
	lines []string
	read  chan struct{} // closed when the client reads; it does not while it stalls
}

// connect serves srv to a new peer. It must run inside a synctest bubble.
func connect(t *testing.T, srv *Server) *testPeer {
	p := &testPeer{t: t, err: make(chan error, 1), read: make(chan struct{})}
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	p.in, p.out = inW, outR
	ctx, cancel := context.WithCancel(t.Context())
	p.stop = cancel
	go func() {
		err := srv.Serve(ctx, inR, outW)
		outW.Close()
		p.err <- err
	}()
	go func() {
		<-p.read
		sc := bufio.NewScanner(outR)
		sc.Buffer(nil, 64<<20)
		for sc.Scan() {
			p.mu.Lock()
			p.lines = append(p.lines, sc.Text())
			p.mu.Unlock()
		}
	}()
	return p
}

// dial connects a client that reads.
func dial(t *testing.T, srv *Server) *testPeer {
	p := connect(t, srv)
	close(p.read)
	return p
}

// open connects a client that reads and has a session with the version.
func open(t *testing.T, srv *Server, version string) *testPeer {
	p := dial(t, srv)
	p.send(initializeLine(version))
	p.want(`"protocolVersion":"` + version + `"`)
	p.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return p
}

func initializeLine(version string) string {
	return `{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"` + version +
		`","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`
}

func newest() string { return mcp.NewestHandshake().Name }

// send writes lines; it returns when the server has read them all.
func (p *testPeer) send(lines ...string) {
	p.t.Helper()
	if _, err := io.WriteString(p.in, strings.Join(lines, "\n")+"\n"); err != nil {
		p.t.Fatalf("sending: %v", err)
	}
}

// got takes the lines that have come, when nothing more happens.
func (p *testPeer) got() []string {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	lines := p.lines
	p.lines = nil
	for _, l := range lines {
		if !json.Valid([]byte(l)) {
			p.t.Errorf("the server sent no JSON: %q", l)
		}
	}
	return lines
}

// want takes the lines that have come and compares each with what it must contain.
func (p *testPeer) want(parts ...string) {
	p.t.Helper()
	lines := p.got()
	if len(lines) != len(parts) {
		p.t.Fatalf("got %d lines, want %d:\n%s", len(lines), len(parts), strings.Join(lines, "\n"))
	}
	for i, part := range parts {
		if !strings.Contains(lines[i], part) {
			p.t.Errorf("line %d is %s\nwant in it %s", i, lines[i], part)
		}
	}
}

// wantExactly compares whole lines.
func (p *testPeer) wantExactly(want ...string) {
	p.t.Helper()
	if got := strings.Join(p.got(), "\n"); got != strings.Join(want, "\n") {
		p.t.Errorf("got:\n%s\nwant:\n%s", got, strings.Join(want, "\n"))
	}
}

// bye ends the input and returns what Serve returned.
func (p *testPeer) bye() error {
	p.in.Close()
	return <-p.err
}

func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}
