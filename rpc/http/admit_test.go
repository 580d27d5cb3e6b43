package httpserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"runnel/internal/oauth"
	"runnel/internal/oauth/oauthtest"
)

// authority is an issuer for tests, and what makes its tokens.
func authority(t *testing.T, resource string) (a *Authority, token func(claims map[string]any) string) {
	t.Helper()
	issuer := oauthtest.New(t)
	check, err := oauth.New(oauth.Options{Issuer: issuer.URL, Audience: resource, Scopes: []string{"tools"},
		Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	return &Authority{Issuer: check, URL: issuer.URL, Resource: resource,
			Scopes: []string{"tools"}}, func(claims map[string]any) string {
			all := map[string]any{"scope": "tools"}
			maps.Copy(all, claims)
			return issuer.Token(resource, all)
		}
}

// An OAuth resource server: who has no token is told where to get one, and a token's client, else its user,
// is the owner.
func TestAuthority(t *testing.T) {
	t.Parallel()
	const resource = "https://mcp.example.com/mcp"
	a, token := authority(t, resource)
	const alice = "alice-alice-alice-1"
	tokens, err := ReadTokens(strings.NewReader(alice + " alice"))
	if err != nil {
		t.Fatal(err)
	}
	f := serve(t, Options{Authority: a, Tokens: always(tokens)})
	for path, status := range map[string]int{"": 200, "/mcp": 200, "x": 404} {
		r, err := http.Get(strings.TrimSuffix(f.url, "/mcp") + metadataPath + path)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(r.Body)
		r.Body.Close()
		want := fmt.Sprintf(`{"resource":%q,"authorization_servers":[%q],"scopes_supported":["tools"],"bearer_methods_supported":["header"]}`, resource, a.URL)
		if r.StatusCode != status || status == 200 && string(text) != want {
			t.Errorf("%s: %d %s", path, r.StatusCode, text)
		}
	}
	const where = `resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp", scope="tools"`
	for bearer, c := range map[string]struct {
		status    int
		challenge string
	}{
		"":                     {401, `Bearer realm="runnel", ` + where},
		"Bearer x":             {401, `Bearer realm="runnel", error="invalid_token", error_description="invalid token: it is not a JWT with a supported signature", ` + where},
		"Bearer " + token(nil): {401, `Bearer realm="runnel", error="invalid_token", error_description="invalid token: it names no owner: it has no client_id or sub", ` + where},
		"Bearer " + token(map[string]any{"exp": 1}): {401,
			`Bearer realm="runnel", error="invalid_token", error_description="invalid token: token is expired (exp)", ` + where},
		"Bearer " + token(map[string]any{"scope": "x"}): {403,
			`Bearer realm="runnel", error="insufficient_scope", error_description="insufficient scope: the token lacks 'tools'", ` + where},
	} {
		r := f.do("POST", initialize, "Authorization: "+bearer)
		if got := r.Header.Get("WWW-Authenticate"); r.StatusCode != c.status || got != c.challenge {
			t.Errorf("%s: %d %s, want %s", bearer, r.StatusCode, got, c.challenge)
		}
	}
	for _, c := range []struct{ token, owner string }{
		{token(map[string]any{"client_id": "app", "sub": "user"}), "app"},
		{token(map[string]any{"sub": "user"}), "user"},
		{alice, "alice"},
	} {
		f.open("Authorization: Bearer "+c.token, "Host: mcp.example.com:443")
		if text := f.log.String(); !strings.Contains(text, fmt.Sprintf(`"owner":%q`, c.owner)) ||
			strings.Contains(text, c.token) {
			t.Errorf("%s: %s", c.owner, text)
		}
	}
	f.wants(403, "", "POST", initialize, "Authorization: Bearer "+alice, "Host: other.example.com")
}

// While the issuer cannot be reached a token is neither good nor bad.
func TestAuthorityIsDown(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "http://" + l.Addr().String()
	l.Close()
	check, err := oauth.New(oauth.Options{Issuer: nobody, Audience: "x", Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	_, token := authority(t, "x")
	f := serve(t, Options{Authority: &Authority{Issuer: check, URL: nobody}})
	f.wants(503, "try again", "POST", initialize, "Authorization: Bearer "+token(nil))
	r := f.do("POST", initialize)
	if got, want := r.Header.Get("WWW-Authenticate"),
		"Bearer realm=\"runnel\", resource_metadata=\""+strings.TrimSuffix(f.url, "/mcp")+metadataPath+
			"/mcp\""; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestProxies(t *testing.T) {
	t.Parallel()
	var proxies Proxies
	for _, text := range []string{"127.0.0.1", "10.0.0.0/8", "::1"} {
		one, err := ParseProxy(text)
		if err != nil {
			t.Fatal(err)
		}
		proxies = append(proxies, one)
	}
	if _, err := ParseProxy("proxy.example.com"); err == nil {
		t.Error("a name counts as an address")
	}
	for _, c := range []struct {
		from, forwarded, client string
		encrypted               bool
	}{
		{"127.0.0.1:1", "", "127.0.0.1", true},
		{"127.0.0.1:1", "192.0.2.1", "192.0.2.1", true},
		{"[::1]:1", "192.0.2.9, 192.0.2.1 , 10.1.2.3", "192.0.2.1", true},
		{"[::ffff:10.0.0.1]:1", "10.2.2.2,10.1.2.3", "10.2.2.2", true},
		{"127.0.0.1:1", "192.0.2.1, garbage", "127.0.0.1", true},
		{"192.0.2.7:1", "192.0.2.1", "192.0.2.7", false},
	} {
		r := &http.Request{RemoteAddr: c.from,
			Header: http.Header{"X-Forwarded-For": {c.forwarded}, "X-Forwarded-Proto": {"https"}}}
		if client, encrypted := proxies.client(r), proxies.encrypted(r); client != c.client ||
			encrypted != c.encrypted {
			t.Errorf("%s for %s: %s, %v", c.from, c.forwarded, client, encrypted)
		}
	}
}

// writeCertificate makes a certificate for this machine.
func writeCertificate(t *testing.T, cert, key, name string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	public, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: public},
		key: {Type: "PRIVATE KEY", Bytes: encoded}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// HTTPS and HTTP/2, with the certificate that the files have now.
func TestTLS(t *testing.T) {
	t.Parallel()
	cert, key := filepath.Join(t.TempDir(), "cert"), filepath.Join(t.TempDir(), "key")
	writeCertificate(t, cert, key, "first")
	fresh, err := NewFresh(zerolog.Nop(), func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(cert, key)
		return &pair, err
	}, cert, key)
	if err != nil {
		t.Fatal(err)
	}
	f := serve(t, Options{Certificate: fresh})
	ask := func() (name string) {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true, DisableKeepAlives: true}}
		r, err := client.Post("https://"+f.Addr().String()+"/mcp", "application/json",
			strings.NewReader(initialize))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		if r.StatusCode != 200 || r.ProtoMajor != 2 {
			t.Fatalf("%v", r)
		}
		return r.TLS.PeerCertificates[0].Subject.CommonName
	}
	later := func() {
		fresh.mu.Lock()
		defer fresh.mu.Unlock()
		fresh.looked = time.Time{}
	}
	if name := ask(); name != "first" {
		t.Error(name)
	}
	if err := os.WriteFile(key, []byte("half a key"), 0o600); err != nil {
		t.Fatal(err)
	}
	later()
	if name := ask(); name != "first" {
		t.Error(name)
	}
	writeCertificate(t, cert, key, "second")
	later()
	if name := ask(); name != "second" {
		t.Error(name)
	}
	r, err := http.Post("http://"+f.Addr().String()+"/mcp", "application/json", strings.NewReader(initialize))
	if err != nil || r.StatusCode != 400 {
		t.Errorf("%v %v", r, err)
	}
}

func TestFresh(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "f")
	read := func() (string, error) {
		text, err := os.ReadFile(file)
		if err == nil && len(text) == 0 {
			err = errors.New("empty")
		}
		return string(text), err
	}
	if _, err := NewFresh(zerolog.Nop(), read, file); err == nil {
		t.Error("a file that is missing is read")
	}
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	f, err := NewFresh(zerolog.Nop(), read, file)
	if err != nil {
		t.Fatal(err)
	}
	write("")
	f.looked = time.Time{}
	if got := f.Get(); got != "one" {
		t.Errorf("a wrong file counts: %q", got)
	}
	write("three")
	if got := f.Get(); got != "one" {
		t.Errorf("looked at once: %q", got)
	}
	f.looked = time.Time{}
	if got := f.Get(); got != "three" {
		t.Errorf("%q", got)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	f.looked = time.Time{}
	if got := f.Get(); got != "three" {
		t.Errorf("%q", got)
	}
	write("four")
	f.looked = time.Time{}
	if got := f.Get(); got != "four" {
		t.Errorf("a file that was missing for a while: %q", got)
	}
}
