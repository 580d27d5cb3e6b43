package rpc

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// asServer makes the test binary a server of some kind.
const asServer = "RUNNEL_TEST_AS_SERVER"

// watchdog is how long a test waits for a real process: generous, because a test machine may be busy.
const watchdog = 2 * time.Minute

func TestMain(m *testing.M) {
	if kind := os.Getenv(asServer); kind != "" {
		serverMain(kind)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// serverMain is a server for tests of real processes.
func serverMain(kind string) {
	switch kind {
	case "modern":
		srv := echoServer(nil)
		srv.Handle(Stateless, "echo", func(_ context.Context, _ *Caller, params json.RawMessage) (any,
			error) {
			return params, nil
		})
		_ = srv.Serve(context.Background(), os.Stdin, os.Stdout)
	case "fragile": // ends when it does not know a method
		lines := bufio.NewScanner(os.Stdin)
		if lines.Scan(); !strings.Contains(lines.Text(), `"initialize"`) {
			os.Exit(3)
		}
		first := strings.NewReader(lines.Text() + "\n")
		_ = echoServer(nil).Serve(context.Background(), io.MultiReader(first, os.Stdin), os.Stdout)
	case "stubborn": // does not end when its stdin ends, and ignores TERM
		signal.Ignore(syscall.SIGTERM)
		_ = echoServer(nil).Serve(context.Background(), os.Stdin, os.Stdout)
		time.Sleep(time.Hour) // not select {}: without cgo the runtime would see a deadlock, and end it
	case "parent": // leaves a child behind, which holds stdout open
		c := exec.Command("sleep", "1000")
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		if err := c.Start(); err != nil {
			panic(err)
		}
		fmt.Fprintln(os.Stderr, c.Process.Pid)
		_ = echoServer(nil).Serve(context.Background(), os.Stdin, os.Stdout)
	case "mortal":
		// Ends at the first call, with much said, and leaves behind a child that holds stdout open and talks.
		lines := bufio.NewScanner(os.Stdin)
		lines.Scan()
		fmt.Println(`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"mortal","version":"1"}}}`)
		lines.Scan() // notifications/initialized
		lines.Scan()
		c := exec.Command("sh", "-c", "sleep 2; while :; do echo; done")
		c.Stdout = os.Stdout
		if err := c.Start(); err != nil {
			panic(err)
		}
		for range 100 {
			fmt.Println(`{"jsonrpc":"2.0","method":"n"}`)
		}
		os.Exit(3)
	}
}

// serverProcess are the options to dial the test binary as a server.
func serverProcess(t *testing.T, kind string) DialOptions {
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return DialOptions{Command: []string{executable},
		Env: append(os.Environ(), asServer+"="+kind, "GORACE=atexit_sleep_ms=0"), Stderr: os.Stderr}
}

// A server's process is started, spoken to in the newest era that it knows, and ended.
func TestDialProcess(t *testing.T) {
	for _, c := range []struct {
		kind, version string
		era           Era
	}{
		{"modern", "", Stateless},
		{"modern", "2025-06-18", Handshake},
		{"fragile", "", Handshake},
		{"fragile", newest(), Handshake},
	} {
		o := serverProcess(t, c.kind)
		o.Version = c.version
		client, err := Dial(t.Context(), o)
		if err != nil {
			t.Fatalf("%s: %v", c.kind, err)
		}
		if client.Era() != c.era || c.version != "" && client.Version().Name != c.version {
			t.Errorf("%s %s: era %v, version %s", c.kind, c.version, client.Era(), client.Version().Name)
		}
		var got map[string]any
		if err := client.Call(t.Context(), "echo", map[string]any{"name": "<\u2028>"}, &got); err != nil ||
			got["name"] != "<\u2028>" {
			t.Errorf("%s: %v, %v", c.kind, got, err)
		}
		if err := client.Close(); err != nil {
			t.Errorf("%s: %v", c.kind, err)
		}
		if err := client.Call(t.Context(), "echo", nil, nil); !errors.Is(err, ErrClosed) {
			t.Errorf("%s: a call after Close gives %v", c.kind, err)
		}
	}
	for _, o := range []DialOptions{
		{}, {Command: []string{"/no/such/program"}}, {Command: []string{"true"}},
		{Command: []string{"true"}, Version: "1999-01-01"},
	} {
		if _, err := Dial(t.Context(), o); err == nil {
			t.Errorf("%q %q can be dialled", o.Command, o.Version)
		}
	}
}

// A server that does not end is killed, and so is what one leaves behind.
func TestCloseLeavesNothing(t *testing.T) {
	client, err := Dial(t.Context(), serverProcess(t, "stubborn"))
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := client.Close(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("it ended with %v", err)
	}
	if took := time.Since(began); took < closeGrace+termGrace {
		t.Errorf("killed after %v", took)
	}

	o := serverProcess(t, "parent")
	r, w := io.Pipe()
	o.Stderr = w
	pid := make(chan int, 1)
	go func() {
		var n int
		_, _ = fmt.Fscan(r, &n)
		pid <- n
		_, _ = io.Copy(io.Discard, r)
	}()
	client, err = Dial(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	w.Close()
	child := <-pid
	for deadline := time.Now().Add(watchdog); ; {
		if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child)); err != nil ||
			strings.Contains(string(stat), ") Z ") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("a child of the server is left")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// The end of a server's process ends its session, though a helper holds its output open; what it has said
// before is not lost, however slowly it is taken.
func TestServerDiesBeforeItsHelper(t *testing.T) {
	o := serverProcess(t, "mortal")
	o.Version = newest()
	said := 0
	o.OnNotification = func(string, json.RawMessage) {
		if said++; said == 1 {
			time.Sleep(2 * (stderrGrace + stdoutGrace)) // the first is slow: the deadline passes meanwhile
		}
	}
	client, err := Dial(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), watchdog)
	defer stop()
	if err := client.Call(ctx, "m", nil, nil); !errors.Is(err, ErrClosed) || !errors.Is(err, errHeldOpen) {
		t.Errorf("the call gives %v", err)
	}
	if said != 100 {
		t.Errorf("%d of 100 notifications came", said)
	}
	if err := client.Close(); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("it ended with %v", err)
	}
}

// A server that even KILL has not ended yet is not asked how it ended: who waits for it may be writing that.
func TestCloseOfAServerThatDoesNotEnd(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	c := &Client{child: &child{cmd: cmd, exited: make(chan struct{})}}
	c.closing.Do(func() {}) // as if it had been waited for long enough
	waited := make(chan error, 1)
	go func() { waited <- cmd.Run() }()
	if err := c.Close(); err == nil || !strings.Contains(err.Error(), "has not ended") {
		t.Errorf("it ended with %v", err)
	}
	if err := <-waited; err != nil {
		t.Error(err)
	}
}

// scripted is a server that the test plays itself, line by line.
type scripted struct {
	t   *testing.T
	in  *bufio.Scanner
	out *io.PipeWriter
}

// play dials a server that the test plays. It opens a session of the handshake era.
func play(t *testing.T, o DialOptions, f func(s *scripted)) *Client {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	s := &scripted{t: t, in: bufio.NewScanner(inR), out: outW}
	s.in.Buffer(nil, 64<<20)
	o.In, o.Out = inW, outR
	o.Version = newest()
	go func() {
		s.want(`"initialize"`)
		s.send(`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"` + newest() +
			`","capabilities":{"tools":"odd","tasks":{"list":{}}},"serverInfo":{"name":"played","version":"0"}}}`)
		s.want(`"notifications/initialized"`)
		f(s)
		for s.in.Scan() {
		}
		outW.Close()
	}()
	c, err := Dial(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (s *scripted) want(part string) {
	if !s.in.Scan() || !strings.Contains(s.in.Text(), part) {
		s.t.Errorf("the client sent %q, want in it %s", s.in.Text(), part)
	}
}

func (s *scripted) send(lines ...string) {
	_, _ = io.WriteString(s.out, strings.Join(lines, "\n")+"\n")
}

// Several responses to one request all come, in their order among the notifications; what is not a message is
// dropped.
func TestSeveralResponses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var mu sync.Mutex
		var got, raw []string
		note := func(s string) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, s)
		}
		c := play(t, DialOptions{
			MaxLine:        250,
			OnMessage:      func(line []byte) { raw = append(raw, string(line)) },
			OnNotification: func(method string, params json.RawMessage) { note(method + string(params)) },
		}, func(s *scripted) {
			s.want(`"id":2`)
			s.send(`npm warn something`, `{"jsonrpc":"2.0","method":"n","params":{"a":1}}`,
				`{"jsonrpc":"2.0","id":2,"result":{"n":1}}`, ``, `[1]`,
				`{"jsonrpc":"2.0","id":99,"result":{}}`,
				`{"jsonrpc":"2.0","method":"n"}`,
				`{"jsonrpc":"2.0","id":2,"result":{"n":2}}`, `{"jsonrpc":"2.0","id":2,"result":{"n":3}}`,
				`{"jsonrpc":"2.0","id":2,"result":{"n":4}}`)
			s.want(`"id":3`)
			s.send(`{"jsonrpc":"2.0","id":3,"result":{"text":"` + strings.Repeat("x", 1000) + `"}}`)
			s.want(`"id":4`)
			s.send(`{"jsonrpc":"2.0","id":4,"error":{"code":-32602,"message":"no","data":[12345678901234567890,"\"\u0000é"]}}`)
		})
		first, err := c.Do(t.Context(), &Request{Method: "m", OnResponse: func(r Response) bool {
			note(string(r.Result))
			return !strings.Contains(string(r.Result), "3")
		}})
		if err != nil || string(first) != `{"n":1}` {
			t.Errorf("%s, %v", first, err)
		}
		var e *Error
		if err := c.Call(t.Context(), "m", nil, nil); !errors.As(err, &e) ||
			!strings.Contains(e.Message, "too long") {
			t.Errorf("a response that is too long: %v", err)
		}
		if err := c.Call(t.Context(), "m", nil, nil); !errors.As(err, &e) ||
			e.Code != mcp.CodeInvalidParams || e.Message != "no" ||
			fmt.Sprintf("%s", e.Data) != `[12345678901234567890,"\"\u0000é"]` {
			t.Errorf("an error: %v, data %s", err, e.Data)
		}
		if want := `n{"a":1} {"n":1} n {"n":2} {"n":3}`; strings.Join(got, " ") != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if c.Capabilities().Tasks == nil || c.Server().Name != "played" {
			t.Errorf("the server's capabilities: %+v", c.Capabilities())
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if len(raw) != 10 { // the first is the answer to initialize; the long one is nobody's
			t.Errorf("%d messages: %q", len(raw), raw)
		}
	})
}

// A request whose context ends is cancelled on the wire; a late answer is ignored. Nothing is kept.
func TestCancelOnTheWire(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		c := play(t, DialOptions{}, func(s *scripted) {
			s.want(`"id":2`)
			cancel(errors.New("enough"))
			s.want(`"method":"notifications/cancelled","params":{"requestId":2,"reason":"enough"}`)
			s.send(`{"jsonrpc":"2.0","id":2,"result":{}}`)
		})
		if err := c.Call(ctx, "m", nil, nil); err == nil || err.Error() != "enough" {
			t.Errorf("the call gives %v", err)
		}
		synctest.Wait()
		if len(c.outgoing.waiting) != 0 {
			t.Errorf("%d requests are kept", len(c.outgoing.waiting))
		}
		c.Close()
	})
}

// Requests that are given up are forgotten, here and in the Conn, though the server only tells of something
// else.
func TestRecalledRequestsAreForgotten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const many = 10
		c := play(t, DialOptions{}, func(s *scripted) {
			for range many {
				s.want(`"method":"m"`)
				s.want(`"method":"notifications/cancelled"`)
				s.send(`{"jsonrpc":"2.0","method":"n"}`)
			}
		})
		for range many {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_ = c.Call(ctx, "m", nil, nil)
			cancel()
		}
		synctest.Wait()
		if n := len(c.conn.answers); n > 0 {
			t.Errorf("%d of %d requests are still to be forgotten", n, many)
		}
		c.Close()
	})
}

// A long answer is not copied more often than the way through the Conn asks for.
func TestMemoryOfALongAnswer(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates, too")
	}
	const size = 1 << 20
	item := `{"name":"tool","description":"says \"so\"","inputSchema":{"type":"object"}},`
	list := "[" + strings.Repeat(item, size/len(item)) + "1]"
	for _, answer := range []string{`"result":{"tools":` + list + `}`,
		`"error":{"code":1,"message":"m","data":` + list + `}`} {
		line := []byte(`{"jsonrpc":"2.0","id":1,` + answer + "}\n")
		asked := &firstWrite{done: make(chan struct{})}
		c := newClient(DialOptions{In: asked, Out: readAfter{asked.done, bytes.NewReader(line)},
			MaxLine: DefaultMaxLine}, nil)
		c.start()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := c.Do(t.Context(), &Request{Method: "m"})
		runtime.ReadMemStats(&after)
		var e *Error
		if err != nil && !errors.As(err, &e) {
			t.Fatal(err)
		}
		if times := float64(after.TotalAlloc-before.TotalAlloc) / size; times > 12 {
			t.Errorf("an answer takes %.1f times its length: %.40s", times, answer)
		}
	}
}

// An answer that is no response fails its request, which would wait for ever.
func TestBrokenAnswers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		answers := []string{
			`{"jsonrpc":"2.0","id":2}`,
			`{"jsonrpc":"2.0","id":3,"result":{},"error":{"code":1,"message":"both"}}`,
			`{"id":4,"result":{}}`,
			`{"jsonrpc":"1.0","id":5,"result":{}}`,
			`{"id":6,"error":{"code":-32601,"message":"method not found"}}`,
			`{"jsonrpc":"2.0","id":7,"result":{},"result":{}}`,
			`[1,{"id":8,"result":{}}]`,
			`{"jsonrpc":"2.0","id":9,"result":{"x":NaN}}`,
			`{"result":{"x":[NaN]},"jsonrpc":"2.0","id":10}`,
			`{"jsonrpc":"2.0","id":11,"result":{"x":1}} done`,
			`progress: 5 {"jsonrpc":"2.0","id":12,"result":{"x":1}}`,
			`{"jsonrpc":"2.0","id":13,"error":{"code":1,"message":"half`,
		}
		c := play(t, DialOptions{}, func(s *scripted) {
			for _, answer := range answers {
				s.want(`"method":"m"`)
				s.send(`{"jsonrpc":"2.0","id":1000}`, `{"jsonrpc":"2.0","id":"2"}`,
					`{"jsonrpc":"2.0"}`, answer)
			}
		})
		for _, answer := range answers {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			var e *Error
			if err := c.Call(ctx, "m", nil, nil); !errors.As(err, &e) ||
				!strings.Contains(e.Message, "the server's answer ") {
				t.Errorf("%s: %v", answer, err)
			}
			cancel()
		}
		c.Close()
	})
}

// What the official TypeScript client takes for the answer to a request is taken.
func TestLenientAnswers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		answers := []string{
			`{"jsonrpc":"2.0","id":"2","result":{"text":"x"}}`,
			`{"jsonrpc":"2.0","id":3.0,"result":{"text":"x"}}`,
			`{"jsonrpc":"2.0","id":4e0,"result":{"text":"x"}}`,
			`{"jsonrpc":"2.0","id":5,"result":{"text":"` + "\xff" + `"}}`,
			`{"jsonrpc":"2.0","id":6,"result":{"text":1e400}}`,
		}
		c := play(t, DialOptions{}, func(s *scripted) {
			for _, answer := range answers {
				s.want(`"method":"m"`)
				s.send(answer)
			}
		})
		for _, answer := range answers {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			if raw, err := c.Do(ctx, &Request{Method: "m"}); err != nil ||
				rawjson.Member(raw, "text") == nil {
				t.Errorf("%s: %s %v", answer, raw, err)
			}
			cancel()
		}
		c.Close()
	})
}

// A server that logs to its output names ids there, too: that is not an answer.
func TestLogLineIsNoAnswer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := play(t, DialOptions{}, func(s *scripted) {
			s.want(`"method":"m"`)
			s.send(`{"level":"error","id":2,"error":"it is slow","msg":"handling a request"}`,
				`{"jsonrpc":"2.0","id":2,"result":{}}`)
		})
		if err := c.Call(t.Context(), "m", nil, nil); err != nil {
			t.Error(err)
		}
		c.Close()
	})
}

// A message with a member twice is dropped, whatever its other members are.
func TestServersMembersTwice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := play(t, DialOptions{OnNotification: func(method string,
			_ json.RawMessage) {
			t.Errorf("told of %q", method)
		}}, func(s *scripted) {
			s.send(`{"jsonrpc":"2.0","method":"a","method":"b"}`,
				`{"jsonrpc":"2.0","error":{},"id":1,"id":2}`,
				`{"jsonrpc":"2.0","method":"a","params":{},"params":{}}`,
				`{"jsonrpc":"2.0","id":9,"jsonrpc":"2.0","method":"ping"}`)
			s.want(`"id":2`)
			s.send(`{"jsonrpc":"2.0","id":2,"result":{}}`)
		})
		if err := c.Call(t.Context(), "m", nil, nil); err != nil {
			t.Error(err)
		}
		c.Close()
	})
}

// A server that does not read what it asks for fills no memory: pings are dropped, and answers and requests
// wait.
func TestServerThatDoesNotRead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const many = 10_000
		long := strings.Repeat("x", 20<<10)
		resume := make(chan struct{})
		sent := make(chan struct{})
		c := play(t, DialOptions{OnRequest: func(context.Context, string, json.RawMessage) (any,
			error) {
			return long, nil
		}}, func(s *scripted) {
			for i := range many {
				s.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"x"}`, i),
					fmt.Sprintf(`{"jsonrpc":"2.0","id":"%04000d","method":"ping"}`, i))
			}
			close(sent)
			<-resume
		})
		<-sent
		for range 100 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := c.Do(ctx, &Request{Method: "m",
				Params: map[string]string{"long": long}}); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Do: %v", err)
			}
			cancel()
		}
		n := c.w.unread()
		if limit := maxUnread + laneRoom + 3*len(long); n > limit {
			t.Errorf("%d bytes wait for the server, want at most %d", n, limit)
		}
		close(resume)
		c.Close()
	})
}

// So do requests that many send at the same time.
func TestManyRequestsWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const many = 100
		long := strings.Repeat("x", 20<<10)
		resume := make(chan struct{})
		c := play(t, DialOptions{}, func(s *scripted) {
			s.want(`"method":"m"`)
			<-resume
			for range many - 1 {
				s.want(`"method":"m"`)
			}
		})
		var asking sync.WaitGroup
		for range many {
			asking.Go(func() { _ = c.Call(t.Context(), "m", map[string]string{"long": long}, nil) })
		}
		synctest.Wait()
		if n := c.w.unread(); n > laneRoom+3*len(long) {
			t.Errorf("%d bytes wait for the server", n)
		}
		close(resume)
		synctest.Wait()
		c.Close()
		asking.Wait()
	})
}

// The server's requests are answered, at once even if the first one takes long, and can be cancelled.
func TestServersRequests(t *testing.T) {
	bubble(t, func(t *testing.T) {
		answered := make(chan struct{})
		c := play(t, DialOptions{OnRequest: func(ctx context.Context, method string,
			params json.RawMessage) (any, error) {
			switch method {
			case "wait":
				<-ctx.Done()
				return nil, context.Cause(ctx)
			case "fail":
				return nil, errors.New("no way")
			}
			return map[string]any{"method": method, "params": params}, nil
		}}, func(s *scripted) {
			s.send(`{"jsonrpc":"2.0","id":"w","method":"wait"}`, `{"jsonrpc":"2.0","id":-7,"method":"ping"}`)
			s.want(`{"jsonrpc":"2.0","id":-7,"result":{}}`)
			s.send(`{"jsonrpc":"2.0","id":"a\u0062","method":"elicitation/create","params":{"message":"?"}}`)
			s.want(`{"jsonrpc":"2.0","id":"a\u0062","result":{"method":"elicitation/create","params":{"message":"?"}}}`)
			s.send(`{"jsonrpc":"2.0","id":"w","method":"ping2"}`)
			s.want(`"id":"w","error"`)
			s.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"w"}}`,
				`{"jsonrpc":"2.0","id":5,"method":"fail"}`)
			s.want(`{"jsonrpc":"2.0","id":5,"error":{"code":-32603,"message":"no way"}}`)
			s.send(`{"jsonrpc":"2.0","id":6,"method":"wait"}`) // goes on until Close
			close(answered)
		})
		<-answered
		c.Close()
	})
}

// A panic of who takes what the server sends leaves nothing waiting: neither the server for its answer, nor a
// call for its own.
func TestPanicLeavesNothingWaiting(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := play(t, DialOptions{
			OnRequest:      func(context.Context, string, json.RawMessage) (any, error) { panic("a bug") },
			OnNotification: func(string, json.RawMessage) { panic("a bug") },
		}, func(s *scripted) {
			s.want(`"id":2`)
			s.send(`{"jsonrpc":"2.0","id":7,"method":"elicitation/create"}`)
			s.want(`{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"internal error"}}`)
			s.send(`{"jsonrpc":"2.0","method":"n"}`)
		})
		if err := c.Call(t.Context(), "m", nil, nil); !errors.Is(err, ErrClosed) {
			t.Errorf("the call gives %v", err)
		}
		c.Close()
	})
}

// When the server is gone, what waits for it fails and says why.
func TestServerGoes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := play(t, DialOptions{}, func(s *scripted) {
			s.want(`"id":2`)
			s.out.Close()
		})
		err := c.Call(t.Context(), "m", nil, nil)
		if !errors.Is(err, ErrClosed) || !strings.Contains(err.Error(), "closed its output") {
			t.Errorf("the call gives %v", err)
		}
		<-c.Context().Done()
		c.Close()
	})
}

// Close does not wait for ever for a server that neither reads nor ends.
func TestCloseDoesNotHang(t *testing.T) {
	bubble(t, func(t *testing.T) {
		inR, inW := io.Pipe()
		outR, outW := io.Pipe()
		go func() {
			lines := bufio.NewScanner(inR)
			lines.Scan()
			io.WriteString(outW, `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"`+newest()+`"}}`+"\n")
		}()
		c, err := Dial(t.Context(), DialOptions{In: inW, Out: outR, Version: newest()})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		c.Close()
		if took := time.Since(began); took > flushGrace+closeGrace {
			t.Errorf("Close took %v", took)
		}
	})
}

// An answer counts that comes from a server which reads no more.
func TestAnswerOfAServerThatReadsNoMore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		inR, inW := io.Pipe()
		outR, outW := io.Pipe()
		asked, told := make(chan bool), make(chan bool)
		go func() {
			lines := bufio.NewScanner(inR)
			lines.Scan()
			io.WriteString(outW, `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"`+newest()+`"}}`+"\n")
			lines.Scan() // notifications/initialized
			lines.Scan()
			inR.Close()
			close(asked)
			<-told
			io.WriteString(outW, `{"jsonrpc":"2.0","id":2,"result":{}}`+"\n")
		}()
		c, err := Dial(t.Context(), DialOptions{In: inW, Out: outR, Version: newest()})
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			<-asked
			_ = c.Notify("notifications/roots/list_changed", nil)
			synctest.Wait() // the writer has failed
			close(told)
		}()
		if err := c.Call(t.Context(), "m", nil, nil); err != nil {
			t.Error(err)
		}
		c.Close()
	})
}

// A subscription whose stream is lost at once, again and again, is made again with longer and longer pauses.
func TestListenPauses(t *testing.T) {
	bubble(t, func(t *testing.T) {
		srv := NewServer(nil)
		asked := 0
		srv.Handle(Handshake, "subscriptions/listen", func(context.Context, *Caller,
			json.RawMessage) (any, error) {
			asked++
			return nil, Errorf(mcp.CodeStreamLost, "lost")
		})
		inR, inW := io.Pipe()
		outR, outW := io.Pipe()
		go func() { _ = srv.Serve(t.Context(), inR, outW); outW.Close() }()
		c, err := Dial(t.Context(), DialOptions{In: inW, Out: outR, Version: newest()})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		lost := 0
		err = c.Listen(ctx, &Request{Method: "subscriptions/listen"}, func() { lost++ })
		if !errors.Is(err, context.DeadlineExceeded) || asked < 10 || asked > 20 || lost != asked {
			t.Errorf("asked %d times a minute, lost %d: %v", asked, lost, err)
		}
		c.Close()
	})
}

// A server that never answers the probe is asked by initialize; one that answers nothing is given up with the
// context.
func TestProbeOfASilentServer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, knowsHandshake := range []bool{true, false} {
			inR, inW := io.Pipe()
			outR, outW := io.Pipe()
			go func() {
				for lines := bufio.NewScanner(inR); lines.Scan(); {
					if strings.Contains(lines.Text(), `"initialize"`) && knowsHandshake {
						io.WriteString(outW, `{"jsonrpc":"2.0","id":2,"result":{"protocolVersion":"2024-11-05"}}`+"\n")
					}
				}
				outW.Close()
			}()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			c, err := Dial(ctx, DialOptions{In: inW, Out: outR})
			cancel()
			if knowsHandshake != (err == nil) {
				t.Errorf("it is reached: %v", err)
			}
			if err == nil {
				if c.Version().Name != "2024-11-05" {
					t.Errorf("version %s", c.Version().Name)
				}
				c.Close()
			}
		}
	})
}

// A request of the stateless era describes its client in _meta, beside what the caller put there.
func TestStatelessMeta(t *testing.T) {
	bubble(t, func(t *testing.T) {
		srv := NewServer(nil)
		srv.Handle(Stateless, "who", func(_ context.Context, c *Caller, params json.RawMessage) (any, error) {
			return map[string]any{"elicits": c.Capabilities.AsksByForm(), "client": c.Client.Name,
				"token": c.Meta.ProgressToken, `"quoted"`: params}, nil
		})
		inR, inW := io.Pipe()
		outR, outW := io.Pipe()
		go func() { _ = srv.Serve(t.Context(), inR, outW); outW.Close() }()
		c, err := Dial(t.Context(), DialOptions{In: inW, Out: outR, Info: mcp.Implementation{Name: "me"},
			Capabilities: mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapability{}}})
		if err != nil {
			t.Fatal(err)
		}
		if c.Server().Name != "runnel" {
			t.Errorf("the server is %+v", c.Server())
		}
		raw, err := c.Do(t.Context(), &Request{Method: "who",
			Params: map[string]any{"_meta": map[string]any{"progressToken": "t"}}})
		if err != nil || !strings.Contains(string(raw), `"client":"me","elicits":true,"token":"t"`) {
			t.Errorf("%s, %v", raw, err)
		}
		raw, err = c.Do(t.Context(), &Request{Method: "who", Capabilities: &mcp.ClientCapabilities{}})
		if err != nil || !strings.Contains(string(raw), `"elicits":false`) {
			t.Errorf("%s, %v", raw, err)
		}
		raw, err = c.Do(t.Context(), &Request{Method: "who", Params: map[string]any{`\"`: 1}})
		if err != nil || !strings.Contains(string(raw), `"\"quoted\"":{"\\\"":1,`) {
			t.Errorf("names that are written with escapes: %s, %v", raw, err)
		}
		if _, err := c.Do(t.Context(), &Request{Method: "who", Params: []int{1}}); err == nil {
			t.Error("params that are no object are sent")
		}
		c.Close()
	})
}

// A request to a server that takes nothing more says so.
func TestServerTakesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		in, out := io.Pipe()
		defer out.Close()
		theirs, ours := io.Pipe()
		theirs.CloseWithError(io.ErrClosedPipe)
		c := newClient(DialOptions{In: ours, Out: in, MaxLine: 1000}, nil)
		c.start()
		_ = c.Notify("n", nil) // its write fails
		synctest.Wait()
		if _, err := c.Do(t.Context(), &Request{Method: "m"}); !errors.Is(err, ErrClosed) ||
			!errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("Do: %v", err)
		}
		c.Close()
	})
}

// A server that starts slowly gets initialize after a while. A client that wants the newest era only has
// nothing else to try, and waits.
func TestSlowDiscover(t *testing.T) {
	for _, version := range []string{"", mcp.Versions[len(mcp.Versions)-1].Name} {
		synctest.Test(t, func(t *testing.T) {
			inR, inW := io.Pipe()
			outR, outW := io.Pipe()
			s := &scripted{t: t, in: bufio.NewScanner(inR), out: outW}
			go func() {
				defer outW.Close()
				s.want(`"server/discover"`)
				time.Sleep(6 * probeTime) // of the bubble's clock
				if version != "" {
					s.send(`{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","supportedVersions":["` + version + `"],"capabilities":{}}}`)
				} else {
					s.want(`"notifications/cancelled"`)
					s.want(`"initialize"`)
					s.send(`{"jsonrpc":"2.0","id":2,"result":{"protocolVersion":"` + newest() +
						`","capabilities":{},"serverInfo":{"name":"slow","version":"0"}}}`)
				}
				for s.in.Scan() {
				}
			}()
			c, err := Dial(t.Context(), DialOptions{In: inW, Out: outR, Version: version})
			if err != nil {
				t.Fatalf("version %q: %v", version, err)
			}
			if err := c.Close(); err != nil {
				t.Errorf("version %q: %v", version, err)
			}
		})
	}
}
