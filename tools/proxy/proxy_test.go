package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	xproxy "golang.org/x/net/proxy"
)

// watchdog is far longer than anything here takes.
const watchdog = time.Minute

// bed is a proxy that serves, and servers behind it, all at 127.0.0.1. Names lead where book says.
type bed struct {
	*Proxy
	t      *testing.T
	at     string // the proxy's address
	tls    *httptest.Server
	plain  *httptest.Server
	client *http.Client
}

func newBed(t *testing.T, allowed ...string) *bed {
	t.Helper()
	b := &bed{t: t}
	said := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if there := r.URL.Query().Get("to"); there != "" {
			http.Redirect(w, r, there, http.StatusFound)
			return
		}
		_, _ = fmt.Fprintf(w, "hello %s", r.Host)
	})
	b.tls, b.plain = httptest.NewTLSServer(said), httptest.NewServer(said)
	t.Cleanup(b.tls.Close)
	t.Cleanup(b.plain.Close)
	var hosts []Host
	for _, text := range allowed {
		text = strings.NewReplacer("TLS", b.port(b.tls), "PLAIN", b.port(b.plain)).Replace(text)
		h, err := ParseHost(text)
		if err != nil {
			t.Fatal(err)
		}
		hosts = append(hosts, h)
	}
	b.Proxy = New(hosts)
	b.Lookup = func(_ context.Context, name string) ([]netip.Addr, error) {
		if name == "nowhere.test" {
			return nil, errors.New("no such host")
		}
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b.at = l.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan struct{})
	go func() { defer close(served); b.Serve(ctx, l) }()
	t.Cleanup(func() { cancel(); <-served })
	via := &url.URL{Scheme: "http", Host: b.at}
	b.client = &http.Client{Timeout: watchdog,
		Transport: &http.Transport{Proxy: http.ProxyURL(via),
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	t.Cleanup(b.client.CloseIdleConnections)
	return b
}

func (b *bed) port(s *httptest.Server) string {
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	return port
}

// get returns what is at a URL, or the error, or what the proxy says.
func (b *bed) get(at string) string {
	at = strings.NewReplacer("TLS", b.port(b.tls), "PLAIN", b.port(b.plain)).Replace(at)
	r, err := b.client.Get(at)
	if err != nil {
		return err.Error()
	}
	defer r.Body.Close()
	text, _ := io.ReadAll(r.Body)
	return fmt.Sprint(r.StatusCode, " ", strings.TrimSpace(string(text)))
}

// A child reaches what is listed, and nothing else, however it names it.
func TestHosts(t *testing.T) {
	t.Parallel()
	b := newBed(t, "good.test:TLS", "good.test:PLAIN", "*.below.test:TLS", "private.test:9", "127.0.0.1:TLS",
		"127.0.0.1:PLAIN")
	for at, want := range map[string]string{
		"https://good.test:TLS/":        "200 hello good.test:",
		"https://GOOD.test.:TLS/":       "200 hello GOOD.test.:",
		"http://good.test:PLAIN/":       "200 hello good.test:",
		"https://a.below.test:TLS/":     "200 hello a.below.test:",
		"https://a.b.below.test:TLS/":   "200 hello a.b.below.test:",
		"https://127.0.0.1:TLS/":        "200 hello 127.0.0.1:",
		"https://[::ffff:7f00:1]:TLS/":  "200 hello [::ffff:7f00:1]:",
		"https://below.test:TLS/":       "Forbidden",
		"https://notbelow.test:TLS/":    "Forbidden",
		"https://xgood.test:TLS/":       "Forbidden",
		"https://good.test:PLAIN/":      "HTTP response to HTTPS client", // reached
		"https://good.test:1/":          "Forbidden",
		"https://other.test:TLS/":       "Forbidden",
		"http://other.test:PLAIN/":      "403 blocked by the sandbox: connect to other.test:",
		"https://127.0.0.2:TLS/":        "Forbidden",
		"https://127.1:TLS/":            "Forbidden",
		"https://[::1]:TLS/":            "Forbidden",
		"http://private.test:9/":        "403 blocked by the sandbox: connect to private.test:9, which is 127.0.0.1, a private address",
		"https://good.test%00.x.y:TLS/": "invalid",
	} {
		for range 2 {
			if got := b.get(at); !strings.Contains(got, want) {
				t.Errorf("%s: %s, want %s", at, got, want)
			}
		}
	}
	if got := b.Refused(); len(got) != maxRefused {
		t.Errorf("refused: %q", got)
	}
}

// A redirect to another host is another connection, and refused.
func TestRedirect(t *testing.T) {
	t.Parallel()
	b := newBed(t, "good.test:TLS", "good.test:PLAIN", "127.0.0.1:TLS", "127.0.0.1:PLAIN")
	for range 2 {
		if got := b.get("https://good.test:TLS/?to=https://other.test:1/"); !strings.Contains(got,
			"Forbidden") {
			t.Error(got)
		}
		if got := b.get("http://good.test:PLAIN/?to=http://other.test/"); !strings.HasPrefix(got,
			"403 blocked by the sandbox: connect to other.test:80; allowed: good.test:") {
			t.Error(got)
		}
	}
	if got := b.Refused(); !slices.Equal(got, []string{"other.test:1", "other.test:80"}) {
		t.Errorf("refused: %q", got)
	}
}

// A request of plain HTTP goes to the host of its URL, whatever its header says, and so does its header.
func TestHostHeader(t *testing.T) {
	t.Parallel()
	b := newBed(t, "good.test:PLAIN", "127.0.0.1:PLAIN")
	for range 2 {
		conn, err := net.Dial("tcp", b.at)
		if err != nil {
			t.Fatal(err)
		}
		in := bufio.NewReader(conn)
		for _, ask := range []struct{ host, header, want string }{
			{"good.test:" + b.port(b.plain), "other.test", "hello good.test:" + b.port(b.plain)},
			{"other.test", "good.test:" + b.port(b.plain),
				"blocked by the sandbox: connect to other.test:80"},
		} {
			_, _ = fmt.Fprintf(conn, "GET http://%s/ HTTP/1.1\r\nHost: %s\r\n\r\n", ask.host, ask.header)
			r, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(r.Body)
			if !strings.HasPrefix(string(text), ask.want) {
				t.Errorf("%+v: %s", ask, text)
			}
		}
		_ = conn.Close()
	}
}

// What is not a request for a proxy is refused.
func TestNoProxyRequest(t *testing.T) {
	t.Parallel()
	b := newBed(t, "good.test:PLAIN")
	for text, want := range map[string]string{
		"GET / HTTP/1.1\r\nHost: good.test\r\n\r\n": "400",
		"GET ftp://good.test/ HTTP/1.1\r\n\r\n":     "400",
		"CONNECT good.test HTTP/1.1\r\n\r\n":        "40",
		"CONNECT :80 HTTP/1.1\r\nHost: x\r\n\r\n":   "40",
		"nonsense\r\n\r\n":                          "400",
		"\x04\x01\x00\x50\x7f\x00\x00\x01x\x00\r\n": "400", // SOCKS4
		"GET http://good.test/ HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 2*maxHeader) +
			"\r\n\r\n": "431",
	} {
		for range 2 {
			conn, err := net.Dial("tcp", b.at)
			if err != nil {
				t.Fatal(err)
			}
			_ = conn.SetDeadline(time.Now().Add(watchdog))
			_, _ = io.WriteString(conn, text)
			r, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil || !strings.HasPrefix(r.Status, want) {
				t.Errorf("%.50q: %v, %v", text, r, err)
			}
			_ = conn.Close()
		}
	}
}

// SOCKS5 reaches what is listed, by its name or by its address.
func TestSOCKS(t *testing.T) {
	t.Parallel()
	b := newBed(t, "good.test:TLS", "127.0.0.1:TLS")
	through, err := xproxy.SOCKS5("tcp", b.at, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]string{
		"good.test:TLS": "", "127.0.0.1:TLS": "", "other.test:TLS": "not allowed",
		"127.0.0.2:TLS": "not allowed", "[::1]:TLS": "not allowed", "good.test:1": "not allowed",
	} {
		for range 2 {
			conn, err := through.Dial("tcp", strings.Replace(host, "TLS", b.port(b.tls), 1))
			if want != "" {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %v", host, err)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s: %v", host, err)
				continue
			}
			secured := tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
			if err := secured.Handshake(); err != nil {
				t.Errorf("%s: %v", host, err)
			}
			_ = conn.Close()
		}
	}
	for text, want := range map[string]string{
		"\x05\x01\x02": "\x05\xff", // a password
		"\x05\x01\x00\x05\x03\x00\x01\x7f\x00\x00\x01\x00\x50": "\x05\x00\x05\x07\x00", // UDP
		"\x05\x01\x00\x05\x02\x00\x01\x7f\x00\x00\x01\x00\x50": "\x05\x00\x05\x07\x00", // to listen
		// An unknown kind of address.
		"\x05\x01\x00\x05\x01\x00\x09":                   "\x05\x00\x05\x08\x00",
		"\x05\x01\x00\x05\x01\x00\x03\x03a\x00b\x00\x50": "\x05\x00\x05\x02\x00", // a NUL in a name
	} {
		conn, err := net.Dial("tcp", b.at)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(watchdog))
		_, _ = io.WriteString(conn, text)
		got, _ := io.ReadAll(conn)
		if !strings.HasPrefix(string(got), want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
		_ = conn.Close()
	}
}

// Ask is asked once for each address that is not listed, and for a private one of a listed name.
func TestAsk(t *testing.T) {
	t.Parallel()
	b := newBed(t, "listed.test:TLS")
	var asked []string
	b.Ask = func(_ context.Context, address string) bool {
		asked = append(asked, address)
		return !strings.HasPrefix(address, "no.")
	}
	for range 2 {
		if got := b.get("https://no.test:TLS/"); !strings.Contains(got, "Forbidden") {
			t.Error(got)
		}
		for _, name := range []string{"yes", "listed"} {
			if got := b.get("https://" + name + ".test:TLS/"); !strings.HasPrefix(got, "200") {
				t.Error(got)
			}
		}
	}
	port := b.port(b.tls)
	if want := []string{"no.test:" + port, "yes.test:" + port,
		"127.0.0.1:" + port}; !slices.Equal(asked, want) {
		t.Errorf("asked %q, want %q", asked, want)
	}
}

// Serve ends all connections when its context ends: those that wait, and those that are through.
func TestServeEnds(t *testing.T) {
	t.Parallel()
	p := New(nil)
	p.Ask = func(context.Context, string) bool { return true }
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan struct{})
	go func() { defer close(served); p.Serve(ctx, l) }()
	var conns []net.Conn
	for _, text := range []string{"", "GET", "\x05",
		"CONNECT " + silent.Addr().String() + " HTTP/1.1\r\n\r\n"} {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(watchdog))
		_, _ = io.WriteString(conn, text)
		conns = append(conns, conn)
	}
	through := bufio.NewReader(conns[3])
	if line, err := through.ReadString('\n'); err != nil || !strings.Contains(line, " 200 ") {
		t.Fatalf("%q, %v", line, err)
	}
	cancel()
	<-served
	for i, conn := range conns {
		if _, err := io.Copy(io.Discard, conn); errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%d: %v", i, err)
		}
		_ = conn.Close()
	}
}

func TestParseHost(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Example.com:443": "example.com:443", "example.com.:443": "example.com:443",
		"*.example.com:443": "*.example.com:443",
		"10.0.0.5:1":        "10.0.0.5:1", "[::1]:80": "[::1]:80", "[::ffff:10.0.0.5]:1": "10.0.0.5:1",
		"localhost:80": "localhost:80", "a_b.c:1": "a_b.c:1",
	} {
		if h, err := ParseHost(text); err != nil || h.String() != want {
			t.Errorf("%s: %v, %v", text, h, err)
		}
	}
	for _, text := range []string{"", "example.com", "example.com:", "example.com:0", "example.com:65536",
		"example.com:https", "*:443", "*.*.com:1", "a.*:1", "a b:1", "https://a:1", ":443", "a..b:1"} {
		if h, err := ParseHost(text); err == nil {
			t.Errorf("%q: %v", text, h)
		}
	}
}

func TestIsPublic(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"1.1.1.1": true, "2606:4700::1111": true, "127.0.0.1": false, "10.0.0.1": false, "172.31.0.1": false,
		"192.168.1.1":     false,
		"169.254.169.254": false, "100.64.0.1": false, "0.0.0.0": false, "0.1.2.3": false, "224.0.0.1": false,
		"255.255.255.255": false, "::1": false,
		"::": false, "fe80::1": false, "fe80::1%eth0": false, "fd00::1": false, "64:ff9b::a00:1": false,
		"2002:a00:1::": false, "ff02::1": false,
	} {
		if got := isPublic(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
}
