package httpserver

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"runnel/internal/headers"
	"runnel/rpc/rawjson"
)

// streaming is a client whose call streams.
type streaming struct {
	t       *testing.T
	conn    net.Conn
	in      *bufio.Reader
	session string
	body    *bufio.Reader // of the call's response
}

func (f *front) streaming() *streaming {
	f.t.Helper()
	conn, err := net.Dial("tcp", f.Addr().String())
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(2 * watchdog))
	_ = conn.(*net.TCPConn).SetReadBuffer(64 << 10)
	c := &streaming{t: f.t, conn: conn, in: bufio.NewReaderSize(conn, 8<<10)}
	opened := c.post(initialize)
	_, _ = io.Copy(io.Discard, opened.Body)
	c.session = fmt.Sprintf("%s: %s\r\n", headers.Session, opened.Header.Get(headers.Session))
	return c
}

func (c *streaming) post(body string) *http.Response {
	c.t.Helper()
	fmt.Fprintf(c.conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s", c.session, len(body), body)
	r, err := http.ReadResponse(c.in, nil)
	if err != nil || r.StatusCode != 200 {
		c.t.Errorf("%v %v", r, err)
		return &http.Response{Body: http.NoBody}
	}
	return r
}

// call begins a call.
func (c *streaming) call(n, size, everyMs int) {
	c.t.Helper()
	r := c.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"count","params":{"n":%d,"size":%d,"everyMs":%d}}`, n, size, everyMs))
	c.body = bufio.NewReaderSize(r.Body, 8<<10)
}

// read reads all n notifications of the call, each once and in order, and how long each was on its way.
func (c *streaming) read(n int) (lags []time.Duration) {
	for {
		line, err := c.body.ReadString('\n')
		data, ok := strings.CutPrefix(line, "data: ")
		switch {
		case err == io.EOF && len(lags) == n:
			return lags
		case err != nil:
			c.t.Errorf("%d of %d: %v", len(lags), n, err)
			return lags
		case !ok || data == "\n":
			continue
		}
		params := rawjson.Member([]byte(strings.TrimSpace(data)), "params")
		if params == nil { // the response
			continue
		}
		if i := string(rawjson.Member(params, "i")); i != fmt.Sprint(len(lags)) {
			c.t.Errorf("%s comes at %d", i, len(lags))
			return lags
		}
		at, _ := strconv.ParseInt(string(rawjson.Member(params, "at")), 10, 64)
		lags = append(lags, time.Since(time.UnixMicro(at)))
	}
}

// Clients whose calls all stream at once take bounded memory each while they do not read, lose nothing, and
// are served alike. RUNNEL_TEST_STREAMS says how many there are.
func TestManyStreams(t *testing.T) { // alone: it counts bytes
	n, _ := strconv.Atoi(os.Getenv("RUNNEL_TEST_STREAMS"))
	if n == 0 {
		n = 50
	}
	f := serve(t, Options{MaxInFlight: n + 1})
	use := func() uint64 {
		for range 3 {
			runtime.GC()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	readAll := func(clients []*streaming, lines int, begin func(*streaming)) (lags [][]time.Duration) {
		lags = make([][]time.Duration, len(clients))
		var all sync.WaitGroup
		for i, c := range clients {
			all.Go(func() {
				begin(c)
				lags[i] = c.read(lines)
			})
		}
		all.Wait()
		return lags
	}

	const lines, size = 400, 4000
	before := use()
	var clients []*streaming
	for range n {
		c := f.streaming()
		c.call(lines, size, 0)
		clients = append(clients, c)
	}
	for held := int64(-1); held != f.kept.Load(); time.Sleep(200 * time.Millisecond) { // until nothing moves
		held = f.kept.Load()
	}
	stalled, held := (use()-before)/uint64(n), f.kept.Load()
	t.Logf("%d clients that do not read: %d bytes each, its own side of the connection included; %d MiB of events are held", n, stalled, held>>20)
	if most := maxKeptInAll + int64(n)*(maxBatch+2*size); held > most ||
		int64(stalled) > most/int64(n)+256<<10 {
		t.Errorf("more than %d bytes", most)
	}
	began := time.Now()
	readAll(clients, lines, func(*streaming) {})
	t.Logf("%d MiB in %v", n*lines*size>>20, time.Since(began).Round(time.Millisecond))

	const ticks = 10
	began = time.Now()
	var medians, every []time.Duration
	// The response begins with the first of them.
	for _, lags := range readAll(clients, ticks, func(c *streaming) { c.call(ticks, 100, 2*n) }) {
		slices.Sort(lags)
		every = append(every, lags...)
		if len(lags) > 0 {
			medians = append(medians, lags[len(lags)/2])
		}
	}
	slices.Sort(every)
	slices.Sort(medians)
	if len(every) < n*ticks {
		t.Fatalf("%d of %d", len(every), n*ticks)
	}
	median, slowest := medians[len(medians)/2], medians[len(medians)-1]
	t.Logf("%d notifications in %v: p50 %v, p99 %v; by clients' medians: %v, the slowest %v", len(every),
		time.Since(began).Round(time.Millisecond),
		every[len(every)/2], every[len(every)*99/100], median, slowest)
	if slowest > 10*median+time.Second {
		t.Errorf("a client is served worse than others: %v, not %v", slowest, median)
	}
}

// What a client has not read of a stream that it has closed after the handle goes to another stream, with
// what comes later, in order; a client that has read on for a while has read what was sent.
func TestMoveTo(t *testing.T) {
	for stays, want := range map[time.Duration]string{0: "ABCD", closesSoon: "BCD"} {
		synctest.Test(t, func(t *testing.T) {
			ctx := context.Background()
			from, to := newStream("1", new(atomic.Int64)), newStream("0", nil)
			write := func(lines string) {
				if err := from.WriteLines(ctx, []byte(lines), false); err != nil {
					t.Error(err)
				}
			}
			part := func(letter string) string {
				return `{"method":"` + strings.Repeat(letter, maxWaiting/2+1) + `"}` + "\n"
			}
			write(`{"id":1,"result":{"task":{"taskId":"x"}}}` + "\n")
			client := from.begin()
			write(part("A"))
			for sent := 0; sent < 2; {
				events, _, err := client.next(ctx)
				if err != nil {
					t.Fatal(err)
				}
				client.sentMore(len(events))
				sent += len(events)
			}
			time.Sleep(stays)
			client.leave(func() { t.Error("the stream is abandoned") })
			write(part("B"))
			go write(part("C") + part("D"))
			synctest.Wait()
			if from.hasLeft() {
				t.Error("the client has no time to come back")
			}
			time.Sleep(moveGrace)
			if !from.hasLeft() {
				t.Error("the client is still waited for")
			}
			reader, got := to.begin(), ""
			from.moveTo(to)
			for len(got) < len(want) {
				events, _, err := reader.next(ctx)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range events {
					got += string(e.text[len(`{"method":"`)])
				}
				reader.sentMore(len(events))
			}
			if got != want {
				t.Errorf("after %v: %s, want %s", stays, got, want)
			}
		})
	}
}
