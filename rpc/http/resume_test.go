package httpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"runnel/rpc"
)

// addLogged lets a server have a method whose stream can be gone on with from a log: n lines of so many bytes, then the end. It streams until
// open is closed, if there is one.
func addLogged(s *rpc.Server, n, size int, open chan struct{}) {
	pad := strings.Repeat("x", size)
	write := func(ctx context.Context, c *rpc.Caller, from int) error {
		for i := from; i <= n; i++ {
			if i == n && open != nil {
				select {
				case <-open:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			err := c.Write(ctx, func(dst []byte) []byte {
				if c.Marks() {
					dst = fmt.Appendf(dst, "from%d", i+1)
				}
				return fmt.Appendf(dst, `{"jsonrpc":"2.0","method":"n","params":{"i":%d,"pad":"%s"}}`+"\n", i, pad)
			})
			if err != nil {
				return err
			}
		}
		return nil
	}
	s.Handle(rpc.Handshake, "logged", func(ctx context.Context, c *rpc.Caller, _ json.RawMessage) (any, error) {
		release := c.Hold()
		return rpc.After{Mark: "from0", Result: struct{}{}, Do: func() {
			go func() {
				defer release()
				_ = write(context.WithoutCancel(ctx), c, 0)
			}()
		}}, nil
	})
	s.HandleResume(func(_ context.Context, mark string) (func(context.Context, *rpc.Caller), error) {
		from, err := strconv.Atoi(strings.TrimPrefix(mark, "from"))
		switch {
		case mark == "trouble":
			return nil, errors.New("the disk cannot be read")
		case err != nil || from > n+1:
			return nil, rpc.ErrNoStream
		}
		return func(open context.Context, c *rpc.Caller) {
			release := c.Hold()
			go func() {
				defer release()
				_ = write(open, c, from)
			}()
		}, nil
	})
}

// serveLogged is serve with that method.
func serveLogged(t *testing.T, o Options, n, size int, open chan struct{}) *front {
	f := serve(t, o)
	serves := f.o.Serves
	var servers = map[string]Served{}
	f.o.Serves = func(owner string) (Served, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if _, ok := servers[owner]; !ok {
			s, err := serves(owner)
			if err != nil {
				return s, err
			}
			addLogged(s.Server, n, size, open)
			servers[owner] = s
		}
		return servers[owner], nil
	}
	return f
}

const callLogged = `{"jsonrpc":"2.0","id":1,"method":"logged"}`

// A stream that can be gone on with from a log takes little memory, whatever its client has to get again, and as often as it likes: one
// that lost much, that waited for longer than its session was kept, or asks for what it got already.
func TestResumeFromTheLog(t *testing.T) {
	t.Parallel()
	const n, size = 300, 4000
	f := serveLogged(t, Options{}, n, size, nil)
	session := f.open()
	var all []event
	r := f.do("POST", callLogged, session)
	for e := range events(r.Body) {
		if e.data != "" {
			all = append(all, e)
		}
		f.mu.Lock()
		for _, c := range f.sessions {
			for _, x := range c.streams {
				if x.mu.Lock(); x.kept > maxKeptMarked+2*size {
					t.Errorf("%d bytes are kept", x.kept)
				}
				x.mu.Unlock()
			}
		}
		f.mu.Unlock()
	}
	if len(all) != n+2 {
		t.Fatalf("%d events", len(all))
	}
	for round, after := range []int{0, 1, n / 2, n, n + 1, 17} {
		if round%2 == 1 { // the session is closed because nobody uses it
			f.mu.Lock()
			for _, c := range f.sessions {
				go f.close(c)
			}
			f.mu.Unlock()
		}
		next := after + 1
		for e := range events(f.do("GET", "", session, "Last-Event-ID: "+all[after].id).Body) {
			if e.data == "" {
				continue
			}
			if next > n+1 || e.data != all[next].data {
				t.Fatalf("after %s: %.100s", all[after].id, e.data)
			}
			next++
		}
		if next != n+2 {
			t.Errorf("after %s: up to %d", all[after].id, next)
		}
	}
	f.wants(410, "", "GET", "", session, "Last-Event-ID: 7-1-from9999")
	f.wants(410, "", "GET", "", session, "Last-Event-ID: 7-1-garbage")
	f.wants(410, "", "GET", "", session, "Last-Event-ID: 7--from1")
	// What may pass is worth another try.
	f.wants(503, "", "GET", "", session, "Last-Event-ID: 7-1-trouble")
	if r := f.do("GET", "", f.open(), "Last-Event-ID: 0-99-from1"); r.StatusCode != 200 {
		t.Errorf("%v", r)
	}
	// The standing stream of a session that was opened again begins anew.
	if r := f.do("GET", "", session, "Last-Event-ID: 0WXYZ-3"); r.StatusCode != 200 {
		t.Errorf("%v", r)
	}
}

// An id is worth nothing to another owner, and does not keep the session from its own.
func TestForeignSessionID(t *testing.T) {
	t.Parallel()
	const alice, bob = "alice-alice-alice-1", "bob-bob-bob-bob-bob-1"
	tokens, err := ReadTokens(strings.NewReader(alice + " alice\n" + bob + " bob\n"))
	if err != nil {
		t.Fatal(err)
	}
	f := serveLogged(t, Options{Tokens: always(tokens)}, 1, 1, nil)
	const asAlice, asBob = "Authorization: Bearer " + alice, "Authorization: Bearer " + bob
	session := f.open(asAlice)
	f.wants(200, "", "POST", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, session, asBob) // a session of bob's
	f.wants(204, "", "DELETE", "", session, asBob)
	f.wants(404, "", "POST", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, session, asBob)
	f.wants(200, "", "POST", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, session, asAlice)
}

// A session that its client ends while another request opens it again stays ended.
func TestEndedWhileItIsRevived(t *testing.T) {
	t.Parallel()
	f := serveLogged(t, Options{}, 1, 1, nil)
	session := f.open()
	f.mu.Lock()
	open := slices.Collect(maps.Values(f.sessions))
	f.mu.Unlock()
	for _, c := range open {
		f.close(c)
	}
	serves, held, first := f.o.Serves, make(chan struct{}), make(chan struct{})
	var asked atomic.Int32
	f.o.Serves = func(owner string) (Served, error) {
		if asked.Add(1) == 1 { // the first one waits
			close(first)
			<-held
		}
		return serves(owner)
	}
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	waited := make(chan int, 1)
	go func() {
		r := f.do("POST", ping, session)
		_, _ = io.Copy(io.Discard, r.Body)
		waited <- r.StatusCode
	}()
	<-first
	f.wants(204, "", "DELETE", "", session)
	close(held)
	if status := <-waited; status != http.StatusNotFound {
		t.Errorf("status %d", status)
	}
	f.wants(404, "", "POST", ping, session)
	if n, _ := f.Open(); n != 0 {
		t.Errorf("%d sessions", n)
	}
}

// Whoever says very much of itself gets an id that fits into a header.
func TestLongOpening(t *testing.T) {
	t.Parallel()
	f := serveLogged(t, Options{}, 1, 1, nil)
	long := strings.Replace(initialize, `"c"`, `"`+strings.Repeat("c", 3000)+`"`, 1)
	for _, body := range []string{initialize, long} {
		r := f.do("POST", body)
		_, _ = io.Copy(io.Discard, r.Body)
		id := r.Header.Get(sessionHeader)
		if r.StatusCode != http.StatusOK || len(id) > 3000 || strings.Contains(id, ".") != (body == initialize) {
			t.Errorf("%v", r)
		}
		f.wants(404, "", "POST", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Mcp-Session-Id: "+strings.Repeat("x", 1000)+id)
	}
}
