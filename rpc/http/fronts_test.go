package httpserver

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"runnel/internal/headers"
)

const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`

// twoFronts are servers that find their sessions in one state, and reach each other.
func twoFronts(t *testing.T) (a, b *front, stored *rows) {
	t.Helper()
	stored = newRows()
	a = serveLogged(t, Options{Sessions: stored.of}, 20, 10, nil, nil)
	b = serveLogged(t, Options{Sessions: stored.of}, 20, 10, nil, nil)
	for _, f := range []*front{a, b} {
		f.o.Advertise = strings.TrimSuffix(f.url, "/mcp")
	}
	return a, b, stored
}

// A client may send each request of a session to another front: the one that has it gets them all.
func TestTwoFronts(t *testing.T) {
	t.Parallel()
	a, b, stored := twoFronts(t)
	for range 2 {
		session := a.open()
		b.wants(200, "", "POST", ping, session)
		a.wants(200, "", "POST", ping, session)
		if n, _ := b.Open(); n != 0 {
			t.Fatalf("the other front has %d sessions", n)
		}

		// A question goes out by one front, and its answer comes in by the other.
		asked := b.do("POST", `{"jsonrpc":"2.0","id":2,"method":"ask"}`, session)
		for e := range events(asked.Body) {
			if strings.Contains(e.data, "elicitation/create") {
				id := strings.TrimSuffix(strings.Split(strings.Split(e.data, `"id":`)[1], ",")[0], "}")
				a.wants(202, "", "POST", `{"jsonrpc":"2.0","id":`+id+`,"result":{"action":"accept"}}`,
					session)
			}
			if strings.Contains(e.data, `"result"`) && !strings.Contains(e.data, "accept") {
				t.Errorf("%s", e.data)
			}
		}

		// A request that came in by one front is cancelled by the other.
		waits := make(chan *http.Response, 1)
		go func() { waits <- b.do("POST", `{"jsonrpc":"2.0","id":3,"method":"wait"}`, session) }()
		<-a.waiting
		a.wants(202, "", "POST",
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}`, session)
		_, _ = io.Copy(io.Discard, (<-waits).Body)

		// A stream that is lost at one front goes on at the other, without a gap.
		r := b.do("POST", `{"jsonrpc":"2.0","id":4,"method":"count","params":{"n":20,"everyMs":40}}`, session)
		var got []string
		last := ""
		for e := range events(r.Body) {
			if e.data != "" {
				got, last = append(got, e.data), e.id
			}
			if len(got) == 3 {
				break
			}
		}
		_ = r.Body.Close()
		for e := range events(a.do("GET", "", session, "Last-Event-ID: "+last).Body) {
			if e.data != "" {
				got = append(got, e.data)
			}
		}
		if len(got) != 21 || !strings.Contains(got[20], `"result"`) {
			t.Errorf("%d events: %q", len(got), got)
		}

		b.wants(204, "", "DELETE", "", session)
		a.wants(404, "", "POST", ping, session)
		b.wants(404, "", "POST", ping, session)
		if len(stored.all) != 0 {
			t.Errorf("%d sessions are stored", len(stored.all))
		}
	}
	// A request that was passed on is not passed on again.
	session := a.open()
	b.wants(http.StatusMisdirectedRequest, "", "POST", ping, session, headers.Forwarded+": 1")
}

// The session of a front that has ended is opened again by the other, with what it has subscribed to, and the
// streams of its calls go on.
func TestFrontEnds(t *testing.T) {
	t.Parallel()
	for _, stops := range []bool{true, false} {
		a, b, stored := twoFronts(t)
		session := a.open()
		for n, change := range []string{
			`"resources/subscribe","params":{"uri":"a:1"}`, `"resources/subscribe","params":{"uri":"a:2"}`,
			`"resources/unsubscribe","params":{"uri":"a:1"}`, `"logging/setLevel","params":{"level":"info"}`,
		} {
			to := []*front{a, b}[n%2]
			to.wants(200, "", "POST", `{"jsonrpc":"2.0","id":1,"method":`+change+`}`, session)
		}
		var last string
		r := b.do("POST", callLogged, session)
		for e := range events(r.Body) {
			if last = e.id; strings.Contains(e.data, `"i":7,`) {
				break
			}
		}
		_ = r.Body.Close()
		if stops {
			a.Stop() // it still answers that it stops
		} else {
			a.Close()
		}
		for range 2 {
			b.wants(200, "", "POST", ping, session)
		}
		if n, _ := b.Open(); n != 1 {
			t.Errorf("%d sessions", n)
		}
		next := 8
		for e := range events(b.do("GET", "", session, "Last-Event-ID: "+last).Body) {
			if e.data == "" {
				continue
			}
			if !strings.Contains(e.data, `"i":`+string(rune('0'+next/10))) && next >= 10 {
				t.Errorf("%s at %d", e.data, next)
			}
			next++
		}
		if next != 21 {
			t.Errorf("up to line %d", next)
		}
		for _, text := range stored.all {
			if strings.Contains(text, "a:1") || !strings.Contains(text, "a:2") ||
				!strings.Contains(text, "info") ||
				!strings.Contains(text, b.o.Advertise) {
				t.Errorf("stored: %s", text)
			}
		}
	}
}

// A front that takes connections but does not answer loses its sessions to the other one, and notices it when
// it goes on.
func TestFrontIsSilent(t *testing.T) {
	t.Parallel()
	a, b, _ := twoFronts(t)
	b.fronts.ResponseHeaderTimeout = 100 * time.Millisecond
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	a.o.Advertise = "http://" + silent.Addr().String()
	session := a.open()
	b.wants(503, "does not answer", "POST", ping, session)
	b.wants(200, "", "POST", ping, session)
	a.mu.Lock()
	for _, c := range a.sessions {
		c.seen = time.Time{} // some time later
	}
	a.mu.Unlock()
	a.wants(200, "", "POST", ping, session)
	if n, _ := a.Open(); n != 0 {
		t.Error("two fronts have the session")
	}
}

// While the state does not answer the sessions of this front go on, and others are not taken for ended.
func TestStateOfSessionsIsAway(t *testing.T) {
	t.Parallel()
	a, b, stored := twoFronts(t)
	session := a.open()
	stored.fail(errors.New("away"))
	a.wants(200, "", "POST", ping, session)
	a.wants(200, "", "POST", ping, a.open())
	b.wants(503, "away", "POST", ping, session)
	a.wants(503, "cannot be ended now", "DELETE", "", session)
	stored.fail(nil)
	b.wants(200, "", "POST", ping, session)
	b.wants(204, "", "DELETE", "", session)
}

// A stream of another front that is silent for long is not cut off, and reaches the client as it comes.
func TestForwardedStreamIsNotHeldUp(t *testing.T) {
	t.Parallel()
	a, b, _ := twoFronts(t)
	session := a.open()
	r := b.do("GET", "", session)
	defer r.Body.Close()
	a.mu.Lock()
	for _, c := range a.sessions {
		if err := c.standing.add(t.Context(), []byte(`{"news":1}`), false); err != nil {
			t.Error(err)
		}
	}
	a.mu.Unlock()
	for in := bufio.NewReader(r.Body); ; {
		line, err := in.ReadString('\n')
		if err != nil || strings.Contains(line, "news") {
			if err != nil {
				t.Error(err)
			}
			return
		}
	}
}
