package oauth

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/rs/zerolog"
)

// authority is an authorization server.
type authority struct {
	*httptest.Server
	looks atomic.Int32 // how often its keys were read

	mu   sync.Mutex
	keys []jose.JSONWebKey
	down bool
	says map[string]string // documents by path, in the place of its own
}

func newKey(t *testing.T, id string) (private jose.JSONWebKey) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return jose.JSONWebKey{Key: key, KeyID: id, Algorithm: "ES256", Use: "sig"}
}

func start(t *testing.T, keys ...jose.JSONWebKey) *authority {
	a := &authority{keys: keys, says: map[string]string{}}
	a.Server = httptest.NewServer(a)
	t.Cleanup(a.Close)
	return a
}

func (a *authority) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	text, own := a.says[r.URL.Path]
	switch {
	case a.down:
		w.WriteHeader(http.StatusBadGateway)
	case own && text == "elsewhere":
		http.Redirect(w, r, "/keys", http.StatusFound)
	case own:
		fmt.Fprint(w, text)
	case r.URL.Path == "/.well-known/openid-configuration":
		fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, a.URL, a.URL+"/keys")
	case r.URL.Path == "/keys":
		a.looks.Add(1)
		var set struct {
			Keys []any `json:"keys"`
		}
		set.Keys = append(set.Keys, map[string]string{"kty": "unheard of"},
			map[string]string{"kty": "oct", "k": "c2VjcmV0", "kid": "1"})
		for _, key := range a.keys {
			set.Keys = append(set.Keys, key.Public())
		}
		_ = json.NewEncoder(w).Encode(set)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// token is one that counts, but for what is changed; nil takes a claim away.
func (a *authority) token(t *testing.T, key jose.JSONWebKey, change map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(key.Algorithm),
		Key: key}, (&jose.SignerOptions{}).WithType("at+jwt"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]any{"iss": a.URL, "aud": "https://mcp.example.com/mcp",
		"exp": time.Now().Add(time.Hour).Unix(), "client_id": "client", "sub": "user", "scope": "tools read"}
	maps.Copy(all, change)
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == nil })
	text, err := jwt.Signed(signer).Claims(all).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func (a *authority) issuer(t *testing.T) *Issuer {
	t.Helper()
	i, err := New(Options{Issuer: a.URL, Audience: "https://mcp.example.com/mcp", Scopes: []string{"tools"},
		Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func TestClaims(t *testing.T) {
	t.Parallel()
	key := newKey(t, "1")
	a := start(t, key)
	i := a.issuer(t)
	now := time.Now().Unix()
	for name, c := range map[string]struct {
		change map[string]any
		want   error
		owner  string
	}{
		"a token":   {nil, nil, "client"},
		"of a user": {map[string]any{"client_id": nil}, nil, "user"},
		"of nobody": {map[string]any{"client_id": nil, "sub": nil}, ErrInvalid, ""},
		"several audiences": {map[string]any{"aud": []string{"x", "https://mcp.example.com/mcp"}},
			nil, "client"},
		"just over":           {map[string]any{"exp": now - 10}, nil, "client"},
		"scp":                 {map[string]any{"scope": nil, "scp": []string{"tools"}}, nil, "client"},
		"other audience":      {map[string]any{"aud": "https://other.example.com/mcp"}, ErrInvalid, ""},
		"no audience":         {map[string]any{"aud": nil}, ErrInvalid, ""},
		"other issuer":        {map[string]any{"iss": a.URL + "/"}, ErrInvalid, ""},
		"no issuer":           {map[string]any{"iss": nil}, ErrInvalid, ""},
		"expired":             {map[string]any{"exp": now - 60}, ErrInvalid, ""},
		"for ever":            {map[string]any{"exp": nil}, ErrInvalid, ""},
		"not yet":             {map[string]any{"nbf": now + 60}, ErrInvalid, ""},
		"from tomorrow":       {map[string]any{"iat": now + 86400}, ErrInvalid, ""},
		"bound to a key":      {map[string]any{"cnf": map[string]string{"jkt": "x"}}, ErrInvalid, ""},
		"a client like this":  {map[string]any{"client_id": "a\nb"}, ErrInvalid, ""},
		"a client with blank": {map[string]any{"client_id": "client "}, ErrInvalid, ""},
		"a long client":       {map[string]any{"client_id": strings.Repeat("x", 300)}, ErrInvalid, ""},
		"a number":            {map[string]any{"client_id": 7}, ErrInvalid, ""},
		"other scopes":        {map[string]any{"scope": "toolsread"}, ErrScope, ""},
		"no scopes":           {map[string]any{"scope": nil}, ErrScope, ""},
	} {
		token := a.token(t, key, c.change)
		if bearer, err := i.Check(t.Context(), token); bearer.Owner != c.owner || !errors.Is(err, c.want) ||
			err != nil && strings.Contains(err.Error(), token) {
			t.Errorf("%s: %v, %v", name, bearer, err)
		}
	}
	if n := a.looks.Load(); n != 1 {
		t.Errorf("the keys were read %d times", n)
	}
	// The claim that names the owner can be chosen: then no other one does.
	i.o.Owner = "email"
	for _, c := range []struct {
		change map[string]any
		owner  string
	}{{map[string]any{"email": "a@example.com"}, "a@example.com"}, {nil, ""},
		{map[string]any{"email": 7}, ""}, {map[string]any{"email": ""}, ""}} {
		for range 2 {
			if bearer, err := i.Check(t.Context(), a.token(t, key, c.change)); bearer.Owner != c.owner ||
				(err == nil) != (c.owner != "") {
				t.Errorf("%v: %v, %v", c.change, bearer, err)
			}
		}
	}
}

// A token that somebody other than the issuer has made is refused.
func TestForgery(t *testing.T) {
	t.Parallel()
	key := newKey(t, "1")
	a := start(t, key)
	i := a.issuer(t)
	good := a.token(t, key, nil)
	part := strings.Split(good, ".")
	encode := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	secret := jose.JSONWebKey{Key: []byte("secretsecretsecretsecretsecretse"), KeyID: "1", Algorithm: "HS256"}
	other := newKey(t, "1")
	withOwnKey, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: other.Key},
		&jose.SignerOptions{EmbedJWK: true})
	if err != nil {
		t.Fatal(err)
	}
	embedded, err := jwt.Signed(withOwnKey).
		Claims(map[string]any{"iss": a.URL, "aud": "https://mcp.example.com/mcp",
			"exp": time.Now().Unix() + 60}).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	for name, token := range map[string]string{
		"nothing":            "",
		"opaque":             "0123456789abcdef",
		"alg none":           encode(`{"alg":"none","kid":"1"}`) + "." + part[1] + ".",
		"alg none, signed":   encode(`{"alg":"None","kid":"1"}`) + "." + part[1] + "." + part[2],
		"a shared secret":    a.token(t, secret, nil),
		"other key, same id": a.token(t, other, nil),
		"its own key":        embedded,
		"other claims":       part[0] + "." + encode(`{"iss":"x"}`) + "." + part[2],
		"no signature":       part[0] + "." + part[1] + ".",
		"other type": strings.Replace(good, part[0],
			encode(`{"alg":"ES256","kid":"1","typ":"dpop+jwt"}`), 1),
		"what must be known": strings.Replace(good, part[0],
			encode(`{"alg":"ES256","kid":"1","crit":["x"],"x":1}`), 1),
		"JSON, not compact": `{"payload":"` + part[1] + `","signatures":[]}`,
		"two signatures":    good + "." + part[2],
		"a key that is a URL": strings.Replace(good, part[0],
			encode(`{"alg":"ES256","kid":"`+a.URL+`/x","jku":"`+a.URL+`/keys"}`), 1),
	} {
		if bearer, err := i.Check(t.Context(), token); !errors.Is(err, ErrInvalid) ||
			token != "" && strings.Contains(err.Error(), token) {
			t.Errorf("%s: %v, %v", name, bearer, err)
		}
	}
	if _, err := i.Check(t.Context(), good); err != nil {
		t.Error(err)
	}
	if n := a.looks.Load(); n != 1 {
		t.Errorf("the keys were read %d times", n)
	}
}

// Keys that the issuer has made since are found, however many tokens ask for others, and those it had are
// used while it cannot be reached.
func TestRotation(t *testing.T) {
	t.Parallel()
	first, second := newKey(t, "1"), newKey(t, "2")
	a := start(t, first)
	i := a.issuer(t)
	check := func(key jose.JSONWebKey) error {
		_, err := i.Check(t.Context(), a.token(t, key, nil))
		return err
	}
	longAgo := func(tried, read time.Duration) {
		i.keys.mu.Lock()
		defer i.keys.mu.Unlock()
		i.keys.tried, i.keys.read = time.Now().Add(-tried), time.Now().Add(-read)
	}
	if err := check(first); err != nil {
		t.Fatal(err)
	}
	a.mu.Lock()
	a.keys = []jose.JSONWebKey{second}
	a.mu.Unlock()
	for range 100 {
		if err := check(second); !errors.Is(err, ErrInvalid) {
			t.Fatal(err)
		}
	}
	if n := a.looks.Load(); n != 1 {
		t.Errorf("the keys were read %d times", n)
	}
	longAgo(fetchPause, time.Minute)
	if err := check(second); err != nil {
		t.Error(err)
	}
	if err := check(first); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
	a.mu.Lock()
	a.down = true
	a.mu.Unlock()
	longAgo(fetchPause, usableFor/2)
	if err := check(second); err != nil {
		t.Error(err)
	}
	i.keys.turn <- struct{}{} // waits for the look that this began
	<-i.keys.turn
	longAgo(fetchPause, usableFor+time.Second)
	if err := check(second); !errors.Is(err, ErrUnreachable) {
		t.Error(err)
	}
}

// The issuer's metadata is read with care.
func TestMetadata(t *testing.T) {
	t.Parallel()
	key := newKey(t, "1")
	const oidc, oauth = "/.well-known/openid-configuration", "/.well-known/oauth-authorization-server"
	for name, c := range map[string]struct {
		says map[string]string
		ok   bool
	}{
		"of RFC 8414": {map[string]string{oauth: `{"issuer":"ISSUER","jwks_uri":"ISSUER/keys"}`,
			oidc: "{}"}, true},
		"of somebody else": {map[string]string{oidc: `{"issuer":"https://other.example.com","jwks_uri":"ISSUER/keys"}`}, false},
		"a file": {map[string]string{oidc: `{"issuer":"ISSUER","jwks_uri":"file:///etc/passwd"}`},
			false},
		"not encrypted":      {map[string]string{oidc: `{"issuer":"ISSUER","jwks_uri":"http://keys.example.com/"}`}, false},
		"no keys' address":   {map[string]string{oidc: `{"issuer":"ISSUER"}`}, false},
		"metadata elsewhere": {map[string]string{oidc: "elsewhere"}, false},
		"keys elsewhere": {map[string]string{oidc: `{"issuer":"ISSUER","jwks_uri":"ISSUER/moved"}`,
			"/moved": "elsewhere"}, false},
		"not JSON": {map[string]string{oidc: "<html>"}, false},
		"no keys":  {map[string]string{"/keys": `{"keys":[]}`}, false},
		"endless keys": {map[string]string{"/keys": `{"keys":["` + strings.Repeat("x", maxDocument) + `"]}`},
			false},
	} {
		a := start(t, key)
		for path, text := range c.says {
			a.says[path] = strings.ReplaceAll(text, "ISSUER", a.URL)
		}
		_, err := a.issuer(t).Check(t.Context(), a.token(t, key, nil))
		if c.ok != (err == nil) || !c.ok && !errors.Is(err, ErrUnreachable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, issuer := range []string{"", "auth.example.com", "http://auth.example.com",
		"ftp://auth.example.com", "https://a:b@auth.example.com", "https://auth.example.com?x",
		"https://auth.example.com#x"} {
		if _, err := New(Options{Issuer: issuer}); err == nil {
			t.Errorf("%s counts as an issuer", issuer)
		}
	}
}

// Many who come at once look once.
func TestOneLook(t *testing.T) {
	t.Parallel()
	key := newKey(t, "1")
	a := start(t, key)
	i := a.issuer(t)
	token := a.token(t, key, nil)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if _, err := i.Check(t.Context(), token); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := a.looks.Load(); n != 1 {
		t.Errorf("the keys were read %d times", n)
	}
}
