package httpserver

import (
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// serveTLS is serve with HTTPS, and so HTTP/2.
func serveTLS(t *testing.T, o Options) *front {
	cert, key := filepath.Join(t.TempDir(), "cert"), filepath.Join(t.TempDir(), "key")
	writeCertificate(t, cert, key, "localhost")
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	o.Certificate = always(&pair)
	return serve(t, o)
}

// wire is an HTTP/2 connection whose frames a test writes itself.
type wire struct {
	*http2.Framer
	t    *testing.T
	conn *tls.Conn
	text bytes.Buffer
	enc  *hpack.Encoder
}

func (f *front) wire() *wire {
	f.t.Helper()
	conn, err := tls.Dial("tcp", f.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(watchdog))
	c := &wire{t: f.t, conn: conn, Framer: http2.NewFramer(conn, conn)}
	c.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.enc = hpack.NewEncoder(&c.text)
	_, _ = io.WriteString(conn, http2.ClientPreface)
	_ = c.WriteSettings() // what cannot be written is seen by who reads
	return c
}

// headers writes the headers of a request: "name: value" each, with another pseudo header in the place of a
// usual one.
func (c *wire) headers(stream uint32, end bool, fields ...string) {
	all := map[string]string{":method": "POST", ":scheme": "https", ":authority": "localhost", ":path": "/mcp", "content-type": "application/json"}
	var more [][2]string
	for _, field := range fields {
		i := strings.Index(field[1:], ": ") + 1
		if name, value := field[:i], field[i+2:]; all[name] != "" {
			all[name] = value
		} else {
			more = append(more, [2]string{name, value})
		}
	}
	c.text.Reset()
	for _, name := range []string{":method", ":scheme", ":authority", ":path", "content-type"} {
		if all[name] != "-" {
			_ = c.enc.WriteField(hpack.HeaderField{Name: name, Value: all[name]})
		}
	}
	for _, field := range more {
		_ = c.enc.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]})
	}
	block := c.text.Bytes()
	first := block[:min(len(block), 16<<10)]
	_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: first, EndStream: end, EndHeaders: len(first) == len(block)})
	for block = block[len(first):]; len(block) > 0; {
		piece := block[:min(len(block), 16<<10)]
		block = block[len(piece):]
		_ = c.WriteContinuation(stream, len(block) == 0, piece)
	}
}

// outcome is the status of a stream's response, or "reset" if the stream or the connection was ended instead.
func (c *wire) outcome(stream uint32) string {
	for {
		frame, err := c.ReadFrame()
		switch frame := frame.(type) {
		case nil:
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return "nothing"
			}
			return "reset"
		case *http2.MetaHeadersFrame:
			if frame.StreamID == stream {
				return frame.PseudoValue("status")
			}
		case *http2.RSTStreamFrame:
			if frame.StreamID == stream {
				return "reset"
			}
		case *http2.GoAwayFrame:
			return "reset"
		}
	}
}

// A request over HTTP/2 says one thing about where it goes and what it is, as over HTTP/1.1 (TestSmuggling).
func TestSmugglingHTTP2(t *testing.T) {
	t.Parallel()
	f := serveTLS(t, Options{})
	for fields, outcome := range map[string]string{
		"":                                                         "200",
		":authority: evil.example.com":                             "403",
		":authority: localhost@evil.example.com":                   "400 403 reset",
		":authority: -|host: localhost":                            "200",
		":authority: -|host: evil.example.com":                     "403",
		":authority: evil.example.com|host: localhost":             "400 403 reset", // the one that counts is evil
		":authority: localhost|:authority2: x":                     "reset",
		":path: /mcp/../mcp":                                       "307",
		":path: http://evil.example.com/mcp":                       "403",
		"content-length: 5":                                        "400 reset",
		"transfer-encoding: chunked":                               "400 reset",
		"connection: keep-alive":                                   "400 reset",
		"Origin: http://localhost":                                 "400 reset", // an upper case letter
		"origin: https://evil.example.com":                         "403",
		"origin: http://localhost|origin: null":                    "403",
		"x-forwarded-host: localhost|:authority: evil.example.com": "403",
		"content-type: text/plain":                                 "415",
		"content-type: application/json, text/plain":               "415",
		"x: a\r\nmcp-session-id: b":                                "400 reset",
	} {
		c := f.wire()
		var list []string
		if fields != "" {
			list = strings.Split(fields, "|")
		}
		c.headers(1, false, list...)
		_ = c.WriteData(1, true, []byte(initialize))
		if got := c.outcome(1); !strings.Contains(" "+outcome+" ", " "+got+" ") {
			t.Errorf("%q: %s, want %s", fields, got, outcome)
		}
		c.conn.Close()
	}
}

// A request over HTTP/2 that is too large is read no further than it takes to say so, and others go on
// (TestBombs).
func TestBombsHTTP2(t *testing.T) {
	t.Parallel()
	f := serveTLS(t, Options{})

	long := f.wire() // a header of 16 MiB, in frames
	go long.headers(1, true, "x: "+strings.Repeat("x", 16<<20))
	if got := long.outcome(1); got != "431" && got != "reset" {
		t.Errorf("a long header: %s", got)
	}
	many := f.wire() // a million headers that are a byte each on the wire
	go func() {
		many.text.Reset()
		_ = many.enc.WriteField(hpack.HeaderField{Name: "x", Value: strings.Repeat("x", 3000)})
		first := bytes.Clone(many.text.Bytes())
		many.text.Reset()
		_ = many.enc.WriteField(hpack.HeaderField{Name: "x", Value: strings.Repeat("x", 3000)})
		again := many.text.Bytes()
		_ = many.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: append(first, bytes.Repeat(again, 10_000)...)})
		for range 100 {
			_ = many.WriteContinuation(1, false, bytes.Repeat(again, 10_000))
		}
	}()
	if got := many.outcome(1); got != "431" && got != "reset" {
		t.Errorf("a million headers: %s", got)
	}

	c := f.wire() // a body without end: what the server takes is what it lets come
	c.headers(1, false)
	answered := make(chan string, 1)
	window := int64(65535)
	var mu sync.Mutex
	go func() {
		for {
			frame, err := c.ReadFrame()
			switch frame := frame.(type) {
			case nil:
				answered <- fmt.Sprint("reset ", err)
				return
			case *http2.WindowUpdateFrame:
				if frame.StreamID == 1 {
					mu.Lock()
					window += int64(frame.Increment)
					mu.Unlock()
				}
			case *http2.SettingsFrame:
				frame.ForeachSetting(func(s http2.Setting) error {
					if s.ID == http2.SettingInitialWindowSize {
						mu.Lock()
						window += int64(s.Val) - 65535
						mu.Unlock()
					}
					return nil
				})
			case *http2.MetaHeadersFrame:
				answered <- frame.PseudoValue("status")
				return
			}
		}
	}()
	sent := int64(0)
	for got := ""; got == ""; {
		mu.Lock()
		may := window - sent
		mu.Unlock()
		if may > 0 && c.WriteData(1, false, bytes.Repeat([]byte{' '}, int(min(may, 16<<10)))) == nil {
			sent += min(may, 16<<10)
		}
		select {
		case got = <-answered:
			if got != "413" {
				t.Errorf("a body without end: %s", got)
			}
		case <-time.After(time.Millisecond / 4):
		}
	}
	if sent > int64(f.o.MaxLine)+4<<20 {
		t.Errorf("%d bytes were taken", sent)
	}
}

// Streams that are opened and reset as fast as can be do not keep others from being served, and nothing of
// them is left (CVE-2023-44487).
func TestRapidReset(t *testing.T) { // alone: it counts goroutines
	f := serveTLS(t, Options{})
	before := runtime.NumGoroutine()
	c := f.wire()
	go func() {
		for i := range uint32(5000) {
			c.headers(2*i+1, false)
			if c.WriteRSTStream(2*i+1, http2.ErrCodeCancel) != nil {
				return // hung up on
			}
		}
		c.conn.Close()
	}()
	other := f.wire()
	other.headers(1, false)
	_ = other.WriteData(1, true, []byte("{}"))
	if got := other.outcome(1); got != "400" { // a session would stay
		t.Errorf("another client: %s", got)
	}
	for { // until it is hung up on, or has hung up
		if _, err := c.ReadFrame(); err != nil {
			break
		}
	}
	other.conn.Close()
	for deadline := time.Now().Add(watchdog); runtime.NumGoroutine() > before+3; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines are left of %d", runtime.NumGoroutine(), before)
		}
	}
}

// A client that is slow at any step is hung up on: the handshake of TLS, the headers, over either version,
// the body.
func TestSlowloris(t *testing.T) {
	t.Parallel()
	cert, key := filepath.Join(t.TempDir(), "cert"), filepath.Join(t.TempDir(), "key")
	writeCertificate(t, cert, key, "localhost")
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	for _, encrypted := range []bool{false, true} {
		o := Options{Log: zerolog.Nop()}
		if encrypted {
			o.Certificate = always(&pair)
		}
		s, err := Listen(t.Context(), "127.0.0.1:0", o)
		if err != nil {
			t.Fatal(err)
		}
		s.http.ReadHeaderTimeout /= 20
		s.http.ReadTimeout /= 30
		s.http.IdleTimeout /= 120
		var served sync.WaitGroup
		served.Go(func() { _ = s.Serve() })
		t.Cleanup(func() { s.Close(); served.Wait() })
		dial := func(protocols ...string) net.Conn {
			c, err := net.Dial("tcp", s.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			_ = c.SetDeadline(time.Now().Add(20 * time.Second))
			if len(protocols) > 0 {
				c = tls.Client(c, &tls.Config{InsecureSkipVerify: true, NextProtos: protocols})
			}
			return c
		}
		clients := map[string]func() net.Conn{
			"nothing": func() net.Conn { return dial() },
			"a piece": func() net.Conn {
				c := dial()
				_, _ = io.WriteString(c, "\x16\x03\x01") // of a handshake, or of a request
				return c
			},
		}
		h2 := func(write func(c *wire)) func() net.Conn {
			return func() net.Conn {
				conn := dial("h2")
				c := &wire{t: t, Framer: http2.NewFramer(conn, nil)}
				c.enc = hpack.NewEncoder(&c.text)
				_, _ = io.WriteString(conn, http2.ClientPreface)
				_ = c.WriteSettings()
				write(c)
				return conn
			}
		}
		if encrypted {
			clients["no preface"] = func() net.Conn { c := dial("h2"); _, _ = c.Write([]byte("PRI")); return c }
			clients["no settings"] = func() net.Conn { c := dial("h2"); _, _ = io.WriteString(c, http2.ClientPreface); return c }
			clients["no request"] = h2(func(*wire) {})
			clients["half of the headers"] = h2(func(c *wire) {
				_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x82}})
			})
			clients["half of a frame"] = h2(func(c *wire) { _ = c.WriteRawFrame(http2.FrameHeaders, 0, 1, nil) })
		} else {
			clients["half of a header"] = func() net.Conn { c := dial(); _, _ = io.WriteString(c, "POST /mcp HTTP/1.1\r\nHost: loc"); return c }
			clients["a header now and then"] = func() net.Conn {
				c := dial()
				go func() {
					for _, err := io.WriteString(c, "POST /mcp HTTP/1.1\r\n"); err == nil; _, err = io.WriteString(c, "X: x\r\n") {
						<-time.After(50 * time.Millisecond)
					}
				}()
				return c
			}
		}
		for name, begin := range clients {
			t.Run(fmt.Sprint(name, ", TLS ", encrypted), func(t *testing.T) {
				t.Parallel()
				if _, err := io.Copy(io.Discard, begin()); errors.Is(err, os.ErrDeadlineExceeded) {
					t.Error("the connection is held")
				}
			})
		}
	}
}

// A token that is forged is refused over the wire with its status, and shows in no log.
func TestForgedTokens(t *testing.T) {
	t.Parallel()
	const resource = "https://mcp.example.com/mcp"
	a, token := authority(t, resource)
	_, stranger := authority(t, resource)
	f := serve(t, Options{Authority: a})
	good := token(map[string]any{"sub": "user"})
	part := strings.Split(good, ".")
	encode := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	for name, c := range map[string]struct {
		token  string
		status int
	}{
		"good":                  {good, 200},
		"alg none":              {encode(`{"alg":"none","kid":"1"}`) + "." + part[1] + ".", 401},
		"alg none, signed":      {encode(`{"alg":"none","kid":"1"}`) + "." + part[1] + "." + part[2], 401},
		"another issuer's":      {stranger(map[string]any{"sub": "user"}), 401},
		"another issuer's key":  {stranger(map[string]any{"sub": "user", "iss": a.URL}), 401},
		"another payload":       {part[0] + "." + encode(`{"sub":"root"}`) + "." + part[2], 401},
		"expired":               {token(map[string]any{"exp": 1}), 401},
		"for another server":    {token(map[string]any{"aud": "https://other.example.com"}), 401},
		"without its signature": {part[0] + "." + part[1] + ".", 401},
		"too few scopes":        {token(map[string]any{"scope": "x"}), 403},
		"of 30 KB":              {good + strings.Repeat("A", 30_000), 401},
		"with a key of its own": {encode(`{"alg":"ES256","jku":"http://127.0.0.1:1/keys","kid":"9"}`) + "." + part[1] + "." + part[2], 401},
	} {
		r := f.do("POST", initialize, "Authorization: Bearer "+c.token, "Host: mcp.example.com")
		text, _ := io.ReadAll(r.Body)
		if r.StatusCode != c.status || c.status == http.StatusUnauthorized && !strings.Contains(r.Header.Get("WWW-Authenticate"), "resource_metadata=") {
			t.Errorf("%s: %d %v", name, r.StatusCode, r.Header)
		}
		for _, secret := range []string{c.token, part[2]} {
			if strings.Contains(f.log.String()+string(text)+fmt.Sprint(r.Header), secret) {
				t.Errorf("%s: it is shown", name)
			}
		}
	}
}
