package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/rs/zerolog"
)

const (
	// freshFor is how old keys may be before they are read again, and usableFor how old they may become while
	// that fails.
	freshFor, usableFor = time.Hour, 24 * time.Hour
	// fetchPause is the least time between two fetches: clients that send tokens with unknown keys must not
	// make this server flood the issuer.
	fetchPause = 10 * time.Second
	// fetchPatience is how long a fetch may take.
	fetchPatience = 10 * time.Second
	// maxDocument is how long a document of the issuer may be, in bytes.
	maxDocument = 1 << 20
)

// keys are the public keys of an issuer.
type keys struct {
	issuer string
	client *http.Client
	log    zerolog.Logger
	turn   chan struct{} // holds a value during a fetch; capacity 1

	mu      sync.Mutex
	known   []jose.JSONWebKey
	read    time.Time // when they were fetched
	tried   time.Time // when the last fetch ended
	problem error     // the error of that fetch
}

func newKeys(issuer string, log zerolog.Logger) *keys {
	return &keys{issuer: issuer, log: log, turn: make(chan struct{}, 1), client: &http.Client{
		Timeout: fetchPatience,
		// The operator has not named the address of a redirect.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true,
			MaxResponseHeaderBytes: 64 << 10, ForceAttemptHTTP2: true},
	}}
}

// find returns the keys that may have made a signature, none if the issuer has no such key.
func (k *keys) find(ctx context.Context, id, algorithm string) ([]jose.JSONWebKey, error) {
	found, fresh := k.matching(id, algorithm)
	if len(found) > 0 {
		if !fresh {
			go func() { _ = k.refresh(context.WithoutCancel(ctx), false) }() // which is logged
		}
		return found, nil
	}
	err := k.refresh(ctx, true)
	if found, _ = k.matching(id, algorithm); len(found) > 0 {
		return found, nil
	}
	return nil, err
}

// matching returns the keys with an id that are for an algorithm, and whether they are fresh. Without an id
// it is all of them.
func (k *keys) matching(id, algorithm string) (found []jose.JSONWebKey, fresh bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	age := time.Since(k.read)
	if age > usableFor {
		return nil, false
	}
	for _, key := range k.known {
		if (id == "" || key.KeyID == id) && (key.Algorithm == "" || key.Algorithm == algorithm) {
			found = append(found, key)
		}
	}
	return found, age < freshFor
}

// refresh fetches the keys again, unless that has just been done. It returns the error of the last fetch.
// Without wait, it does not wait for a fetch that is under way.
func (k *keys) refresh(ctx context.Context, wait bool) error {
	select {
	case k.turn <- struct{}{}:
	default:
		if !wait {
			return nil
		}
		select {
		case k.turn <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	defer func() { <-k.turn }()
	k.mu.Lock()
	just, problem := time.Since(k.tried) < fetchPause, k.problem
	k.mu.Unlock()
	if just {
		return problem
	}
	known, err := k.fetch(context.WithoutCancel(ctx)) // others wait for it as well
	if err != nil {
		k.log.Error().Err(err).Msg("reading the issuer's keys")
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tried, k.problem = time.Now(), err
	if err == nil {
		k.known, k.read = known, k.tried
	}
	return err
}

// fetch reads the issuer's metadata, and its keys.
func (k *keys) fetch(ctx context.Context) (known []jose.JSONWebKey, err error) {
	ctx, cancel := context.WithTimeout(ctx, fetchPatience)
	defer cancel()
	at, err := k.discover(ctx)
	if err != nil {
		return nil, err
	}
	var set struct{ Keys []json.RawMessage }
	if err := k.get(ctx, at, &set); err != nil {
		return nil, err
	}
	for _, text := range set.Keys {
		var key jose.JSONWebKey
		// Others have another use.
		if json.Unmarshal(text, &key) == nil && key.Valid() && key.IsPublic() &&
			(key.Use == "" || key.Use == "sig") {
			known = append(known, key)
		}
	}
	if len(known) == 0 {
		return nil, fmt.Errorf("%s has no public key for signatures", at)
	}
	return known, nil
}

// discover returns the address of the issuer's keys ("Authorization Server Metadata Discovery", RFC 8414 and
// OpenID Connect Discovery 1.0).
func (k *keys) discover(ctx context.Context) (at string, err error) {
	issuer, err := secureURL(k.issuer)
	if err != nil {
		return "", err
	}
	path := strings.TrimSuffix(issuer.EscapedPath(), "/")
	root := issuer.Scheme + "://" + issuer.Host
	places := []string{root + "/.well-known/oauth-authorization-server" + path,
		root + "/.well-known/openid-configuration" + path}
	if path != "" {
		places = append(places, root+path+"/.well-known/openid-configuration")
	}
	var problems []error
	for _, place := range places {
		var metadata struct {
			Issuer string `json:"issuer"`
			Keys   string `json:"jwks_uri"`
		}
		err := k.get(ctx, place, &metadata)
		if err == nil && metadata.Issuer != k.issuer {
			// "the issuer value in the document MUST be identical to the issuer identifier used to construct
			// the well-known URL"
			err = fmt.Errorf("%s is the metadata of %.200q, not of %q", place, metadata.Issuer, k.issuer)
		}
		if err != nil {
			problems = append(problems, err)
			continue
		}
		at, err := secureURL(metadata.Keys)
		if err == nil && at.Scheme != issuer.Scheme {
			err = errors.New("is less secure than the issuer")
		}
		if err != nil {
			return "", fmt.Errorf("the jwks_uri %.200q of %s %w", metadata.Keys, place, err)
		}
		return metadata.Keys, nil
	}
	return "", errors.Join(problems...)
}

// get fetches a document.
func (k *keys) get(ctx context.Context, at string, to any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "application/json")
	response, err := k.client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", at, response.Status)
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, maxDocument+1))
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", at, err)
	case len(text) > maxDocument:
		return fmt.Errorf("%s is longer than %d bytes", at, maxDocument)
	}
	if err := json.Unmarshal(text, to); err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	return nil
}

// secureURL parses the address of a server that must be trusted: "All authorization server endpoints MUST be
// served over HTTPS", except on this machine.
func secureURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || u.RawQuery != "":
		return nil, errors.New("is not a URL such as https://auth.example.com")
	case u.Scheme == "https", u.Scheme == "http" && isLoopback(u.Hostname()):
		return u, nil
	}
	return nil, errors.New("must begin with https:// (http:// is for this machine only)")
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}
