package httpserver

import (
	"bytes"
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
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"runnel/internal/headers"
	"runnel/rpc"
)

// rows keeps sessions as a state does.
type rows struct {
	mu    sync.Mutex
	all   map[string]string
	puts  map[string]uint64
	fails error
}

func newRows() *rows { return &rows{all: map[string]string{}, puts: map[string]uint64{}} }

func (r *rows) of(owner string) Sessions { return rowsOf{r, owner} }

// rowsOf has the rows of an owner.
type rowsOf struct {
	*rows
	owner string
}

func (r rowsOf) Session(_ context.Context, id string) (session []byte, version uint64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := r.owner + " " + id
	if r.all[key] == "" {
		return nil, 0, r.fails
	}
	return []byte(r.all[key]), r.puts[key], r.fails
}

func (r rowsOf) PutSession(_ context.Context, id string, session []byte,
	version uint64) (uint64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := r.owner + " " + id
	if r.fails != nil || r.puts[key] != version {
		return 0, r.fails
	}
	r.all[key] = string(session)
	r.puts[key]++
	return r.puts[key], nil
}

func (r rowsOf) DeleteSession(_ context.Context, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fails != nil {
		return r.fails
	}
	delete(r.all, r.owner+" "+id)
	delete(r.puts, r.owner+" "+id)
	return nil
}

func (r *rows) fail(with error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fails = with
}

// addLogged lets a server have a method whose stream can be gone on with from a log: n lines of so many
// bytes, then the end. It streams until open is closed, if there is one. written is closed when the call has
// written what it will.
func addLogged(s *rpc.Server, n, size int, open, written chan struct{}) {
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
				return fmt.Appendf(dst, `{"jsonrpc":"2.0","method":"n","params":{"i":%d,"pad":"%s"}}`+"\n", i,
					pad)
			})
			if err != nil {
				return err
			}
		}
		return nil
	}
	s.Handle(rpc.Handshake, "logged", func(ctx context.Context, c *rpc.Caller,
		_ json.RawMessage) (any, error) {
		release := c.Hold()
		return rpc.After{Mark: "from0", Result: struct{}{}, Do: func() {
			go func() {
				defer release()
				if written != nil {
					defer close(written)
				}
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
func serveLogged(t *testing.T, o Options, n, size int, open, written chan struct{}) *front {
	if o.Sessions == nil {
		o.Sessions = newRows().of
	}
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
			addLogged(s.Server, n, size, open, written)
			servers[owner] = s
		}
		return servers[owner], nil
	}
	return f
}

const callLogged = `{"jsonrpc":"2.0","id":1,"method":"logged"}`

// A stream that can be gone on with from a log takes little memory, whatever its client has to get again, and
// as often as it likes: one that lost much, that waited for longer than its session was kept, or asks for
// what it got already.
func TestResumeFromTheLog(t *testing.T) {
	t.Parallel()
	const n, size = 300, 4000
	f := serveLogged(t, Options{}, n, size, nil, nil)
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
			f.closeAll()
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
	// Trouble that may pass is worth another try.
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
	f := serveLogged(t, Options{Tokens: always(tokens)}, 1, 1, nil, nil)
	const asAlice, asBob = "Authorization: Bearer " + alice, "Authorization: Bearer " + bob
	session := f.open(asAlice)
	f.wants(404, "", "DELETE", "", session, asBob)
	f.wants(404, "", "POST", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, session, asBob)
	f.wants(200, "", "POST", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, session, asAlice)
}

// A session that its client ends while another request opens it again stays ended.
func TestEndedWhileItIsRevived(t *testing.T) {
	t.Parallel()
	f := serveLogged(t, Options{}, 1, 1, nil, nil)
	session := f.open()
	f.closeAll()
	serves := f.o.Serves
	held := make(chan struct{})
	first := make(chan struct{})
	var asked atomic.Int32
	f.o.Serves = func(owner string) (Served, error) {
		if asked.Add(1) == 1 { // the first one waits
			close(first)
			<-held
		}
		return serves(owner)
	}
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

// The session of a client that says very much of itself is not stored, and an id that was never issued is none.
func TestLongOpening(t *testing.T) {
	t.Parallel()
	stored := newRows()
	f := serveLogged(t, Options{Sessions: stored.of}, 1, 1, nil, nil)
	long := strings.Replace(initialize, `"c"`, `"`+strings.Repeat("c", maxOpening)+`"`, 1)
	for n, body := range []string{initialize, long} {
		r := f.do("POST", body)
		_, _ = io.Copy(io.Discard, r.Body)
		id := "Mcp-Session-Id: " + r.Header.Get(headers.Session)
		f.wants(200, "", "POST", ping, id)
		stored.mu.Lock()
		if len(stored.all) != 1 {
			t.Errorf("%d sessions are stored", len(stored.all))
		}
		stored.mu.Unlock()
		f.closeAll()
		f.wants([]int{200, 404}[n], "", "POST", ping, id)
		f.wants(404, "", "POST", ping, id+"A")
	}
}

// closeAll closes all sessions, as if they had been idle for long.
func (f *front) closeAll() {
	f.mu.Lock()
	open := slices.Collect(maps.Values(f.sessions))
	f.mu.Unlock()
	for _, c := range open {
		f.close(c)
	}
}

// Whoever fills the stream of a client that has gone does not wait for it when the client can go on with
// another stream, which it does: with nothing missing and nothing twice.
func TestFullStreamIsLeft(t *testing.T) {
	t.Parallel()
	const n, size = 1000, 4000
	written := make(chan struct{})
	f := serveLogged(t, Options{}, n, size, nil, written)
	session := f.open()
	next := 0
	last := ""
	read := func(body io.ReadCloser, most int) {
		t.Helper()
		defer body.Close()
		for e := range events(body) {
			if e.data == "" || strings.Contains(e.data, "result") {
				last = e.id
				continue
			}
			if !strings.Contains(e.data, fmt.Sprintf(`"i":%d,`, next)) {
				t.Fatalf("%.60s at %d", e.data, next)
			}
			next, last = next+1, e.id
			if most--; most == 0 {
				return
			}
		}
	}
	began := time.Now()
	read(f.do("POST", callLogged, session).Body, 3)
	select {
	case <-written:
	case <-time.After(resumeGrace / 2):
		t.Fatal("the call is held up by a client that has gone")
	}
	t.Logf("the call was let go after %v", time.Since(began))
	for rounds := 0; next <= n && rounds < 5; rounds++ {
		read(f.do("GET", "", session, "Last-Event-ID: "+last).Body, 0)
	}
	if next != n+1 {
		t.Errorf("%d of %d lines", next, n+1)
	}
}

// The answer of a request that is not kept is told to be lost, once, to who comes back for it: in another
// process, or too late.
func TestAnswerIsLost(t *testing.T) {
	t.Parallel()
	f := serve(t, Options{})
	session := f.open()
	r := f.do("POST", `{"jsonrpc":"2.0","id":"a-b","method":"count","params":{"n":20,"everyMs":50}}`, session)
	var all []event
	for e := range events(r.Body) {
		all = append(all, e)
	}
	answer := all[len(all)-1]
	if !strings.Contains(answer.data, `"result"`) {
		t.Fatal(answer)
	}
	other := f.open() // which knows nothing of the stream
	for _, e := range all[:len(all)-1] {
		var told []string
		for e := range events(f.do("GET", "", other, "Last-Event-ID: "+e.id).Body) {
			if e.data != "" {
				told = append(told, e.data)
			}
		}
		if len(told) != 1 || !strings.Contains(told[0], `"id":"a-b","error":{"code":-32603`) {
			t.Fatalf("after %q: %q", e.id, told)
		}
	}
	for _, id := range []string{answer.id, "9-1-call:", "9-1-call:MQ==", "9-1-call:InEi", "9-1-call:InE",
		"9-1-call:bnVsbA", "9-1-call:e30"} {
		status := 410
		if id == "9-1-call:InEi" { // "q"
			status = 200
		}
		f.wants(status, "", "GET", "", other, "Last-Event-ID: "+id)
	}
}

// A client that comes back for a lost answer, and leaves again before it is told, leaves nothing that harms
// the server.
func TestLostAnswerIsLeft(t *testing.T) {
	t.Parallel()
	f := serve(t, Options{})
	f.open()
	f.mu.Lock()
	open := slices.Collect(maps.Values(f.sessions))
	f.mu.Unlock()
	for _, c := range open {
		from, err := c.resume(t.Context(), "9-1-call:InEi")
		if err != nil {
			t.Fatal(err)
		}
		c.disconnected(from, false, true)
		c.mu.Lock()
		e := c.streams[from.name]
		c.mu.Unlock()
		c.giveUp(e, from) // as after resumeGrace
		if from, err = c.resume(t.Context(), "9-1-call:InEi"); err != nil {
			t.Fatal(err)
		}
		c.inAll.Add(maxKeptInAll + 1)
		c.disconnected(from, false, true)
		c.inAll.Add(-maxKeptInAll - 1)
	}
}

// A client that gets again what it has lost gets all of it, also where others hold so much that nothing is
// kept.
func TestResumeInACrowd(t *testing.T) {
	const n = 200
	var inAll atomic.Int64
	st := newStream("1", &inAll)
	for i := range n {
		if err := st.add(t.Context(), bytes.Repeat([]byte("x"), 1000), i == n-1); err != nil {
			t.Fatal(err)
		}
	}
	st.begin().sentMore(n / 2)
	inAll.Add(maxKeptInAll)
	from, err := st.connect(1)
	for over := false; err == nil && !over; {
		var events []numbered
		if events, over, err = from.next(t.Context()); err == nil {
			from.sentMore(len(events))
		}
	}
	if err != nil || from.last != n {
		t.Errorf("%d of %d: %v", from.last, n, err)
	}
	if st.drop(); inAll.Load() != maxKeptInAll {
		t.Errorf("%d bytes are counted that nobody holds", inAll.Load()-maxKeptInAll)
	}
}

// A client can name a stream before that has begun: names are easily guessed.
func TestGuessedStream(t *testing.T) {
	t.Parallel()
	f := serveLogged(t, Options{}, 1, 1, nil, nil)
	f.open()
	f.mu.Lock()
	open := slices.Collect(maps.Values(f.sessions))
	f.mu.Unlock()
	c := open[0]
	for i := range 500 {
		guess := fmt.Sprintf("%d%s-0", c.last+1, c.names)
		began := make(chan struct{})
		go func() {
			defer close(began)
			if _, err := c.resume(t.Context(), "9-1-from1"); err != nil {
				t.Error(i, err)
			}
		}()
		for guessed := false; !guessed; {
			if from, err := c.resume(t.Context(), guess); err == nil {
				guessed = true
				_ = string(append([]byte(from.before), from.name...)) // as a response does
			}
		}
		<-began
	}
}
