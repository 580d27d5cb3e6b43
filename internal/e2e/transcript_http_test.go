package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"runnel/rpc/mcp"
)

// The conversations over HTTP are those over stdio: the same files, each line of the client a POST, what is
// in each response a stream of its own, in order. Between streams there is no order: a line may come before
// one of another that is named before it. http.txt lists the conversations that cannot be had, and why.
func TestTranscriptsHTTP(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("testdata", "transcripts", "http.txt"))
	if err != nil {
		t.Fatal(err)
	}
	all := transcripts(t)
	apart := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if name, reason, ok := strings.Cut(strings.TrimSpace(line), ": "); ok &&
			!strings.HasPrefix(line, "#") {
			if apart[name] = true; len(reason) < 10 || all[name] == nil {
				t.Errorf("http.txt: %s", line)
			}
		}
	}
	for name, tr := range all {
		if apart[name] || !tr.fitsHTTP() {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			play(t, tr, carried(t, tr.flags(t)...))
		})
	}
}

// fitsHTTP reports whether a conversation says nothing about pipes: their end, their bytes, a client that
// stops reading them.
func (tr *transcript) fitsHTTP() bool {
	return tr.mode != "inprocess" && tr.behind == "" && tr.exit == 0 && tr.unanswered == 0 &&
		!slices.ContainsFunc(tr.steps, func(s step) bool {
			return s.kind == "stall" || s.kind == "eof" || s.kind == "signal" ||
				s.kind == "-->" && (strings.HasPrefix(s.text, `q"`) || !strings.HasPrefix(s.text, "{"))
		})
}

// carried is a session over HTTP: with the built program, on a port of its own.
func carried(t *testing.T, args ...string) *session {
	server := serveHTTP(t, args...)
	in, out := io.Pipe()
	c := &carrier{t: t, url: server.url}
	c.s = newSession(t, out, nil)
	c.s.stderr = &server.log
	c.s.streams = true
	c.s.pid = server.cmd.Process.Pid
	if i := slices.Index(args, "--config"); i >= 0 {
		c.s.config = args[i+1]
	}
	var cancel context.CancelFunc
	c.ctx, cancel = context.WithCancel(context.Background())
	t.Cleanup(func() { cancel(); _ = in.Close(); <-c.s.exited })
	go func() {
		defer close(c.s.exited)
		lines := bufio.NewReader(in)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				break
			}
			c.carry(bytes.TrimSpace(line))
		}
		server.end()
		c.open.Wait()
		c.s.deliver(nil, io.EOF)
	}()
	return c.s
}

// carrier brings the lines of a client by POST, and what comes back.
type carrier struct {
	t    *testing.T
	url  string
	ctx  context.Context
	s    *session
	open sync.WaitGroup

	mu      sync.Mutex
	session string
	streams int
	// Ids: "The sender of the cancellation notification SHOULD ignore any response to the request that
	// arrives afterward".
	cancelled []string
	closing   map[string]context.CancelFunc // requests of 2026-07-28, which end with their connection
}

// soon is how long the next line waits for the response to one: the server may take lines in another order
// than they are sent.
const soon = 30 * time.Millisecond

// carry posts a line. It waits for the beginning of the response, which is soon there or has to wait for
// something.
func (c *carrier) carry(line []byte) {
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct {
			Name, URI, TaskID string
			RequestID         json.RawMessage
			Meta              map[string]json.RawMessage `json:"_meta"`
		}
	}
	_ = json.Unmarshal(line, &m) // what is wrong about it is the server's to say
	header := map[string]string{"Content-Type": "application/json",
		"Accept": "application/json, text/event-stream"}
	ctx, cancel := context.WithCancel(c.ctx)
	var version string
	if json.Unmarshal(m.Params.Meta[mcp.MetaProtocolVersion], &version) == nil {
		header["Mcp-Protocol-Version"], header["Mcp-Method"] = version, m.Method
		if name := m.Params.Name + m.Params.URI + m.Params.TaskID; name != "" &&
			strings.Contains("tools/call prompts/get resources/read tasks/get tasks/update tasks/cancel",
				m.Method) {
			header["Mcp-Name"] = name
		}
		c.mu.Lock()
		if c.closing == nil {
			c.closing = map[string]context.CancelFunc{}
		}
		c.closing[string(m.ID)] = cancel
		c.mu.Unlock()
	}
	c.mu.Lock()
	stop := c.closing[string(m.Params.RequestID)]
	if c.session != "" && version == "" {
		header["Mcp-Session-Id"] = c.session
	}
	c.mu.Unlock()
	if m.Method == "notifications/cancelled" && stop != nil {
		stop()
		cancel()
		return
	}
	c.mu.Lock()
	if m.Method == "notifications/cancelled" {
		c.cancelled = append(c.cancelled, string(m.Params.RequestID))
	} else {
		c.cancelled = slices.DeleteFunc(c.cancelled, func(id string) bool { return id == string(m.ID) })
	}
	c.mu.Unlock()
	began := make(chan struct{})
	c.open.Go(func() {
		defer cancel()
		c.exchange(ctx, "POST", line, header, began)
	})
	select {
	case <-began:
	case <-time.After(soon):
	}
	c.mu.Lock()
	session := c.session
	c.mu.Unlock()
	if m.Method == "notifications/initialized" && session != "" {
		began := make(chan struct{})
		c.open.Go(func() {
			c.exchange(c.ctx, "GET", nil, map[string]string{"Accept": "text/event-stream",
				"Mcp-Session-Id": session}, began)
		})
		<-began
	}
}

// exchange sends a request and delivers what comes.
func (c *carrier) exchange(ctx context.Context, method string, line []byte, header map[string]string,
	began chan struct{}) {
	r, err := http.NewRequestWithContext(ctx, method, c.url, bytes.NewReader(line))
	if err != nil {
		c.t.Error(err)
		return
	}
	for name, value := range header {
		r.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(r)
	c.mu.Lock()
	c.streams++
	stream := c.streams
	c.mu.Unlock()
	if err != nil {
		close(began)
		if ctx.Err() == nil {
			c.s.deliver(fmt.Appendf(nil, "%s failed: %v", method, err), nil)
		}
		return
	}
	defer response.Body.Close()
	// Initialize took long.
	if session := response.Header.Get("Mcp-Session-Id"); session != "" &&
		response.Header.Get("Content-Type") == "text/event-stream" {
		c.mu.Lock()
		c.session = session
		c.mu.Unlock()
	}
	if response.Header.Get("Content-Type") != "text/event-stream" {
		defer close(began)
		text, _ := io.ReadAll(response.Body)
		var m struct{ ID, Error json.RawMessage }
		_ = json.Unmarshal(text, &m)
		c.mu.Lock()
		cancelled := slices.Contains(c.cancelled, string(m.ID))
		if session := response.Header.Get("Mcp-Session-Id"); session != "" && m.Error == nil {
			c.session = session
		}
		c.mu.Unlock()
		if len(text) > 0 && !cancelled {
			c.s.deliverIn(stream, text)
		}
		return
	}
	close(began)
	lines := bufio.NewReader(response.Body)
	for {
		text, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		if data, ok := bytes.CutPrefix(text, []byte("data: ")); ok && len(data) > 1 {
			c.s.deliverIn(stream, bytes.TrimSuffix(data, []byte("\n")))
		}
	}
}
