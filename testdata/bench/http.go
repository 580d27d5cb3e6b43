package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// The same over Streamable HTTP, in sessions of 2025-11-25.
func init() {
	measurements = slices.Concat(measurements, []measurement{
		{"HTTP: ping", "", httpPing},
		{"HTTP: echo", "", httpEcho},
		{"HTTP: notifications", "", httpNotifications},
		{"HTTP: sessions", "", httpSessions},
	})
}

const (
	httpSessionCount = 1000 // what runnel lets one owner have
	httpChunks       = 100_000
)

// serveHTTP starts a server that serves HTTP, and waits until it listens.
func serveHTTP(s server) (c *session, address string, err error) {
	if s.name == "sourcegraph/jsonrpc2" {
		return nil, "", errCannot
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	address = free.Addr().String()
	free.Close()
	args := []string{"-http", address}
	if s.task {
		args = []string{"--http", address, "--no-stdio", "--max-in-flight", "2000"}
	}
	if s.name == "floor" {
		s.argv = []string{s.argv[0][:len(s.argv[0])-len("floor")] + "httpfloor"}
	}
	if c, err = start(s, args...); err != nil {
		return nil, "", err
	}
	for range 200 {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
			return c, address, nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	c.kill()
	return nil, "", errors.New("the server does not listen")
}

// kill ends a server that does not watch its stdin.
func (c *session) kill() {
	_ = c.cmd.Process.Signal(os.Interrupt)
	late := time.AfterFunc(time.Second, func() { _ = c.cmd.Process.Kill() })
	defer late.Stop()
	err := c.cmd.Wait()
	if wrong := (*exec.ExitError)(nil); err != nil && !errors.As(err, &wrong) {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
	c.in.Close()
	c.out.Close()
}

// client is one connection, with a session. It takes little processor time itself.
type client struct {
	net.Conn
	in      *bufio.Reader
	session string
}

func dialHTTP(address string) (*client, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	return &client{Conn: conn, in: bufio.NewReaderSize(conn, 64<<10)},
		conn.SetDeadline(time.Now().Add(watchdog))
}

// ask sends a request, and returns the response with its body unread.
func (c *client) ask(method, body string) (*http.Response, error) {
	request := method + " /mcp HTTP/1.1\r\nHost: " + c.RemoteAddr().String() +
		"\r\nAccept: application/json, text/event-stream\r\nContent-Type: application/json\r\n"
	if c.session != "" {
		request += "MCP-Protocol-Version: 2025-11-25\r\nMcp-Session-Id: " + c.session + "\r\n"
	}
	if _, err := io.WriteString(c,
		request+"Content-Length: "+strconv.Itoa(len(body))+"\r\n\r\n"+body); err != nil {
		return nil, err
	}
	response, err := http.ReadResponse(c.in, &http.Request{Method: method})
	if err == nil && response.StatusCode >= 300 {
		text, _ := io.ReadAll(response.Body)
		err = fmt.Errorf("%s: %s", response.Status, text)
	}
	return response, err
}

// call asks, and reads the whole response.
func (c *client) call(body string) ([]byte, error) {
	response, err := c.ask("POST", body)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(response.Body)
}

// initialize opens a session.
func (c *client) initialize() error {
	c.session = ""
	response, err := c.ask("POST",
		`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`)
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	c.session = response.Header.Get("Mcp-Session-Id")
	_, err = c.call(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return err
}

func openHTTP(address string) (*client, error) {
	c, err := dialHTTP(address)
	if err == nil {
		err = c.initialize()
	}
	return c, err
}

func httpPing(_ string, s server) ([]value, error) {
	served, address, err := serveHTTP(s)
	if err != nil {
		return nil, err
	}
	defer served.kill()
	c, err := openHTTP(address)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	var all []time.Duration
	for i := range pings {
		began := time.Now()
		answer, err := c.call(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, i+1))
		if err != nil || !bytes.Contains(answer, []byte(`"result"`)) {
			return nil, fmt.Errorf("%s, %w", answer, err)
		}
		all = append(all, time.Since(began))
	}
	all = all[pings/10:] // the first ones warm up
	return []value{{"HTTP: ping, p50", quantile(all, 50), "ns"},
		{"HTTP: ping, p99", quantile(all, 99), "ns"}}, nil
}

// httpEcho calls from as many connections, in a session each.
func httpEcho(_ string, s server) ([]value, error) {
	served, address, err := serveHTTP(s)
	if err != nil {
		return nil, err
	}
	defer served.kill()
	var all sync.WaitGroup
	var calls atomic.Int64
	failed := make(chan error, inFlight)
	ready, begin := sync.WaitGroup{}, make(chan time.Time)
	for range inFlight {
		ready.Add(1)
		all.Go(func() {
			c, err := openHTTP(address)
			ready.Done()
			if err != nil {
				failed <- err
				return
			}
			defer c.Close()
			<-begin
			for began, i := time.Now(), 1; time.Since(began) < echoTime; i++ {
				answer, err := c.call(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"}}}`, i))
				if err != nil || !bytes.Contains(answer, []byte(`hello`)) {
					failed <- fmt.Errorf("%s, %w", answer, err)
					return
				}
				calls.Add(1)
			}
		})
	}
	ready.Wait()
	cpu, began := served.cpu(), time.Now()
	close(begin)
	all.Wait()
	took := time.Since(began)
	select {
	case err := <-failed:
		return nil, err
	default:
	}
	n := float64(calls.Load())
	return []value{{"HTTP: echo, 64 in flight", n / took.Seconds(), "/s"},
		{"HTTP: echo, 64 in flight, CPU each", (served.cpu() - cpu) / n, "ns"}}, nil
}

// httpNotifications streams chunks as events of a call: progress notifications.
func httpNotifications(_ string, s server) ([]value, error) {
	served, address, err := serveHTTP(s)
	if err != nil {
		return nil, err
	}
	defer served.kill()
	c, err := openHTTP(address)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	cpu, began := served.cpu(), time.Now()
	response, err := c.ask("POST",
		fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"stream","arguments":{"count":%d,"intervalMs":0},"_meta":{"progressToken":1,"partialResults":true}}}`, httpChunks))
	if err != nil {
		return nil, err
	}
	came, head := 0, ""
	for buf := make([]byte, 256<<10); ; {
		n, err := response.Body.Read(buf)
		text := head + string(buf[:n])
		came += strings.Count(text, `"progressToken"`)
		head = text[max(0, len(text)-len(`"progressToken"`)+1):]
		if err == io.EOF {
			break
		} else if err != nil {
			return nil, err
		}
	}
	if came < httpChunks*99/100 { // mcp-go loses the last one or two where the result overtakes them
		return nil, fmt.Errorf("%d notifications of %d", came, httpChunks)
	}
	n := float64(came)
	return []value{{"HTTP: notifications of one 50-byte chunk", n / time.Since(began).Seconds(), "/s"},
		{"HTTP: notifications of one 50-byte chunk, CPU each", (served.cpu() - cpu) / n, "ns"}}, nil
}

// httpSessions opens sessions, then a stream of each, and looks at the memory.
func httpSessions(_ string, s server) ([]value, error) {
	if s.name == "floor" {
		return nil, errCannot
	}
	served, address, err := serveHTTP(s)
	if err != nil {
		return nil, err
	}
	defer served.kill()
	c, err := openHTTP(address)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	const rest = 2 * time.Second
	time.Sleep(rest)
	before := served.private()
	var sessions []string
	for range httpSessionCount - 1 {
		if err := c.initialize(); err != nil {
			return nil, err
		}
		sessions = append(sessions, c.session)
	}
	time.Sleep(rest)
	idle := served.private()
	for _, session := range sessions {
		stream, err := dialHTTP(address)
		if err != nil {
			return nil, err
		}
		defer stream.Close()
		stream.session = session
		if _, err := stream.ask("GET", ""); err != nil {
			return nil, err
		}
	}
	time.Sleep(rest)
	n := float64(len(sessions))
	return []value{
		{"HTTP: memory of an idle session, private", (idle - before) * 1024 / n, "KiB"},
		{"HTTP: memory of a session with its stream, private", (served.private() - before) * 1024 / n, "KiB"},
		{"HTTP: 1,000 sessions with their streams: proportional share (PSS)", served.rollup("Pss:"), "MiB"},
	}, nil
}
