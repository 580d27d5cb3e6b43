package model

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"go.yaml.in/yaml/v4"

	"runnel/internal/modeltest"
	"runnel/rpc/mcp"
	"runnel/tools/config"
	"runnel/tools/toolstest"
)

// wire is a network in memory, so that time may be virtual.
type wire struct {
	conns  chan net.Conn
	closed chan struct{}
	close  func()
}

func (w *wire) Accept() (net.Conn, error) {
	select {
	case c := <-w.conns:
		return c, nil
	case <-w.closed:
		return nil, net.ErrClosed
	}
}

func (w *wire) Close() error   { w.close(); return nil }
func (w *wire) Addr() net.Addr { return &net.TCPAddr{} }

// through lets a model reach a handler, whatever its URL. stop ends both.
func through(m *Model, handler http.Handler) (stop func()) {
	w := &wire{conns: make(chan net.Conn), closed: make(chan struct{})}
	w.close = sync.OnceFunc(func() { close(w.closed) })
	server := &http.Server{Handler: handler, ErrorLog: log.New(io.Discard, "", 0)}
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(w) }()
	client := newHTTP()
	via := client.Transport.(*http.Transport)
	via.Proxy = nil
	via.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		select {
		case w.conns <- theirs:
			return ours, nil
		case <-w.closed:
			return nil, errors.New("connection refused")
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	m.http = func() *http.Client { return client }
	return func() {
		via.CloseIdleConnections()
		_ = server.Close()
		<-served
	}
}

// parse makes the tool of a config: the keys of "tools.ask".
func parse(t *testing.T, text string) *Model {
	t.Helper()
	var tool map[string]any
	if err := yaml.Unmarshal([]byte(text), &tool); err != nil {
		t.Fatal(err)
	}
	encoded, err := json.Marshal(map[string]any{"tools": map[string]any{"ask": tool}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Parse("runnel.yaml", encoded)
	if err != nil {
		t.Fatal(err)
	}
	list, err := All(c, []string{"KEY=s3cr3t-key"})
	if err == nil {
		err = CheckSchemas(c, list)
	}
	if err != nil {
		t.Fatal(err)
	}
	return list[0]
}

// question is a tool that asks a model of an API.
func question(api string) string {
	return "{description: Ask, model: {api: " + api + `, url: "http://there/base", name: m-1, key: "${KEY}", system: "You are {{who}}.", prompt: "Say {{what}}!"},
		input: {who: {type: string, default: terse}, what: {type: string}}, required: [what]}`
}

// usageOf reads the usage of a result.
func usageOf(t *testing.T, r *mcp.CallToolResult) (u usage) {
	t.Helper()
	raw, err := json.Marshal(r.Meta[mcp.MetaUsage])
	if err == nil {
		err = json.Unmarshal(raw, &u)
	}
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// ask calls a tool twice, on a provider with these answers for each, and returns what came of both calls,
// which must be equal.
func ask(t *testing.T, m *Model, answers ...modeltest.Answer) (*toolstest.Called, []modeltest.Request) {
	t.Helper()
	var called [2]*toolstest.Called
	var endpoint *modeltest.Endpoint
	for i := range called {
		endpoint = &modeltest.Endpoint{Answers: answers}
		stop := through(m, endpoint)
		called[i] = toolstest.Call(t, m, map[string]string{"what": `"hi" {{who}}`})
		stop()
	}
	if a, b := called[0], called[1]; a.Output != b.Output || a.Text() != b.Text() || a.IsError != b.IsError {
		t.Errorf("the first call: %q %q\nthe second: %q %q", a.Output, a.Text(), b.Output, b.Text())
	}
	return called[1], endpoint.Requests()
}

// words splits a text into pieces as a model sends them.
func words(text string) []string { return strings.SplitAfter(text, " ") }

// taskIDs matches the ids of tasks.
var taskIDs = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`) })
