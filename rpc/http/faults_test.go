package httpserver

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"runnel/internal/headers"
)

// send writes a request as it is, and returns the response and how many bytes of the rest the server took.
func (f *front) send(head string, rest io.Reader) (r *http.Response, taken int64) {
	f.t.Helper()
	c, err := net.Dial("tcp", f.Addr().String())
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(watchdog))
	written := make(chan int64, 1)
	go func() {
		n, err := io.WriteString(c, head)
		if err == nil && rest != nil {
			taken, _ := io.Copy(c, rest) // fails when the server hangs up
			written <- taken
			return
		}
		written <- int64(n)
	}()
	if r, err = http.ReadResponse(bufio.NewReader(c), nil); err != nil {
		f.t.Fatalf("%.100s: %v", head, err)
	}
	return r, <-written
}

// xs is text without an end.
type xs struct{}

func (xs) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// A request that is too large is read no further than it takes to say so.
func TestBombs(t *testing.T) {
	t.Parallel()
	f := serve(t, Options{})
	const post = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	const gib = 1 << 30
	// Bytes that fit in the buffers of the system count as written, whether or not they are read.
	const most = 1<<20 + 16<<20
	for name, c := range map[string]struct {
		head   string
		rest   io.Reader
		status int
	}{
		"a body of 1 GiB": {fmt.Sprintf("%sContent-Length: %d\r\n\r\n", post, gib),
			io.LimitReader(xs{}, gib), 413},
		"chunks of 1 GiB": {post + "Transfer-Encoding: chunked\r\n\r\n40000000\r\n",
			io.LimitReader(xs{}, gib), 413},
		"a chunk that has no length": {post + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
			io.LimitReader(xs{}, 1<<20), 400},
		"a header of 1 GiB":   {post + "X: ", io.LimitReader(xs{}, gib), 431},
		"an address of 1 GiB": {"POST /", io.LimitReader(xs{}, gib), 431},
		"a million headers":   {post + strings.Repeat("X: x\r\n", 1_000_000), nil, 431},
		"a million values": {"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: " +
			strings.Repeat("a/b,", 5000) + "\r\nContent-Type: application/json\r\nContent-Length: 0\r\n\r\n",
			nil, 406},
	} {
		r, taken := f.send(c.head, c.rest)
		if r.StatusCode != c.status || c.rest != nil && taken > most {
			t.Errorf("%s: %s after %d bytes", name, r.Status, taken)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.heldInAll != 0 || len(f.held) > 0 {
		t.Errorf("%d bytes are held: %v", f.heldInAll, f.held)
	}
}

// A request says one thing about where it goes, and what it is.
func TestSmuggling(t *testing.T) {
	t.Parallel()
	f := serve(t, Options{})
	length := fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d\r\n", len(initialize))
	for head, status := range map[string]int{
		"POST /mcp HTTP/1.1\r\nHost: localhost\r\n" + length:                                             200,
		"POST /mcp HTTP/1.1\r\n" + length:                                                                400,
		"POST /mcp HTTP/1.1\r\nHost: localhost\r\nHost: evil.example.com\r\n" + length:                   400,
		"POST http://evil.example.com/mcp HTTP/1.1\r\nHost: localhost\r\n" + length:                      403,
		"POST /mcp HTTP/1.1\r\nHost: evil.example.com\r\nX-Forwarded-Host: localhost\r\n" + length:       403,
		"POST /mcp HTTP/1.1\r\nHost: localhost@evil.example.com\r\n" + length:                            400,
		"POST /mcp HTTP/1.1\r\nHost: localhost.\r\n" + length:                                            403,
		"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n" + length:                        400,
		"POST /mcp HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nOrigin: null\r\n" + length: 403,
		"POST /mcp/../mcp HTTP/1.1\r\nHost: localhost\r\n" + length:                                      307,
	} {
		if r, _ := f.send(head+"\r\n"+initialize, nil); r.StatusCode != status {
			t.Errorf("%q: %s, want %d", head, r.Status, status)
		}
	}
}

// A client that asks and does not read the answers is hung up on, whoever it is: its answers wait for a while
// only.
func TestUnreadAnswers(t *testing.T) {
	t.Parallel()
	s, err := Listen(t.Context(), "127.0.0.1:0", Options{Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	s.http.WriteTimeout /= 3000
	var served sync.WaitGroup
	served.Go(func() { _ = s.Serve() })
	t.Cleanup(func() { s.Close(); served.Wait() })
	c, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	requests := bytes.Repeat([]byte("POST /mcp HTTP/1.1\r\nHost: evil.example.com\r\nContent-Length: 0\r\n\r\n"), 1000)
	for err == nil {
		_, err = c.Write(requests)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the connection is held")
	}
}

// A Host that is not an address is answered as others are.
func TestHostWithoutPort(t *testing.T) {
	t.Parallel()
	issuer, _ := authority(t, "not a URL")
	issuer.Resource = ""
	f := serve(t, Options{Authority: issuer})
	r, _ := f.send("POST /mcp HTTP/1.1\r\nHost: localhost:x\r\nContent-Length: 0\r\n\r\n", nil)
	if r.StatusCode != 401 {
		t.Errorf("%v", r)
	}
}

func TestContentTypes(t *testing.T) {
	t.Parallel()
	f := serve(t, Options{})
	for kind, status := range map[string]int{"application/json": 200, "Application/JSON; charset=UTF-8": 200,
		"": 415, "application/json-rpc": 415, "text/plain": 415,
		"application/x-www-form-urlencoded": 415, "multipart/form-data; boundary=x": 415,
		"application/json, text/plain": 415} {
		f.wants(status, "", "POST", initialize, "Content-Type: "+kind)
	}
}

// A client that only listens costs little, and nothing of it is left when it has gone.
func TestIdleClients(t *testing.T) { // alone: it counts goroutines and bytes
	f := serve(t, Options{})
	const n = 1000
	use := func() (bytes uint64, goroutines int) {
		for range 3 { // pools let go of what they hold with the second one
			runtime.GC()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse, runtime.NumGoroutine()
	}
	http.DefaultClient.CloseIdleConnections()
	listen := func(n int) (leave func()) {
		var clients []net.Conn
		for range n {
			c, err := net.Dial("tcp", f.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			clients = append(clients, c)
			_ = c.SetDeadline(time.Now().Add(watchdog))
			in := bufio.NewReaderSize(c, 64)
			fmt.Fprintf(c, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(initialize), initialize)
			r, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, r.Body)
			fmt.Fprintf(c, "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nMcp-Session-Id: %s\r\n\r\n", r.Header.Get(headers.Session))
			if r, err = http.ReadResponse(in, nil); err != nil || r.StatusCode != 200 {
				t.Fatalf("%v %v", r, err)
			}
		}
		return func() {
			for _, c := range clients {
				c.Close()
			}
			f.mu.Lock()
			var open []*session
			for _, c := range f.sessions {
				open = append(open, c)
			}
			f.mu.Unlock()
			for _, c := range open {
				f.close(c)
			}
		}
	}
	before, goroutines := use()
	gone := func(most uint64) (bytes uint64) {
		for deadline := time.Now().Add(watchdog); ; time.Sleep(10 * time.Millisecond) {
			bytes, left := use()
			if left <= goroutines && bytes <= most {
				return bytes
			} else if time.Now().After(deadline) {
				t.Fatalf("%d goroutines are left of %d, and %d bytes, more than %d", left, goroutines,
					bytes, most)
			}
		}
	}
	leave := listen(n)
	full, many := use()
	each := (full - before) / n
	t.Logf("%d bytes and %d goroutines for each client that listens, its own side of the connection included",
		each, (many-goroutines)/n)
	if each > 128<<10 {
		t.Errorf("%d bytes for each client", each)
	}
	leave()
	gone(math.MaxUint64)
	once := gone(math.MaxUint64) // what the runtime keeps of goroutines that have ended, for the next ones
	listen(n / 2)()
	gone(once + n/2*4000) // a session that is kept takes 20,000
}
