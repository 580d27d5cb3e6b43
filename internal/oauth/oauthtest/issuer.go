// Package oauthtest is an authorization server for tests, as net/http/httptest is a server for them.
//
//	metadata ─▶ /keys ─▶ one key, which signs what Token returns
//
// Goroutines: those of its httptest.Server. Locks: none.
package oauthtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// Issuer issues access tokens.
type Issuer struct {
	*httptest.Server
	t      testing.TB
	signer jose.Signer
}

// New starts one, which ends with the test.
func New(t testing.TB) *Issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	private := jose.JSONWebKey{Key: key, KeyID: "1"}
	i := &Issuer{t: t}
	if i.signer, err = jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: private}, nil); err != nil {
		t.Fatal(err)
	}
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/keys" {
			// Fails only when the reader has closed.
			_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{private.Public()}})
			return
		}
		_, _ = fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, i.URL, i.URL+"/keys") // likewise
	}))
	t.Cleanup(i.Close)
	return i
}

// Token is one for an audience with some claims, valid for a minute unless they say otherwise.
func (i *Issuer) Token(audience string, claims map[string]any) string {
	i.t.Helper()
	all := map[string]any{"iss": i.URL, "aud": audience, "exp": time.Now().Unix() + 60}
	maps.Copy(all, claims)
	text, err := jwt.Signed(i.signer).Claims(all).Serialize()
	if err != nil {
		i.t.Fatal(err)
	}
	return text
}
