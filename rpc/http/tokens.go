package httpserver

import (
	"bufio"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"runnel/internal/oauth"
)

// Authority is the OAuth issuer of tokens for this server, which makes it a resource server.
type Authority struct {
	*oauth.Issuer
	URL      string // the issuer's
	Resource string // this server's URL, as its clients name it; "" = as in each request
	Scopes   []string
}

// minToken is the least length of a token: shorter ones can be guessed.
const minToken = 16

// Tokens map tokens to owners: who has access, and whose tasks they see. Make them with ReadTokens or
// OneToken.
type Tokens struct {
	entries []tokenEntry
}

type tokenEntry struct {
	hash  [sha256.Size]byte
	owner string
}

// Owners returns the owners of the tokens, each once, sorted.
func (t *Tokens) Owners() (owners []string) {
	for _, e := range t.entries {
		owners = append(owners, e.owner)
	}
	slices.Sort(owners)
	return slices.Compact(owners)
}

// ErrNoTokens is returned by ReadTokens, with Tokens that admit no client, if the file has no token.
var ErrNoTokens = errors.New("there is no token: write one \"TOKEN OWNER\" a line")

// ReadTokens reads lines of "TOKEN OWNER". Blank lines and lines that begin with # are skipped. An error
// never shows a token.
func ReadTokens(r io.Reader) (*Tokens, error) {
	t := &Tokens{}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || text[0] == '#' {
			continue
		}
		fields := strings.Fields(text)
		switch {
		case len(fields) != 2:
			return nil, fmt.Errorf("line %d: write a token, a space and an owner", n)
		case len(fields[0]) < minToken:
			return nil, fmt.Errorf("line %d: the token is shorter than %d characters: make one with, say, "+
				"openssl rand -hex 32", n, minToken)
		}
		e := tokenEntry{sha256.Sum256([]byte(fields[0])), fields[1]}
		if slices.ContainsFunc(t.entries, func(o tokenEntry) bool { return o.hash == e.hash }) {
			return nil, fmt.Errorf("line %d: the token is also in an earlier line", n)
		}
		t.entries = append(t.entries, e)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(t.entries) == 0 {
		return t, ErrNoTokens
	}
	return t, nil
}

// OneToken returns Tokens with a single token for an owner.
func OneToken(token, owner string) *Tokens {
	return &Tokens{[]tokenEntry{{sha256.Sum256([]byte(token)), owner}}}
}

// Owner returns the owner of a token. The time that it takes reveals nothing about the tokens.
func (t *Tokens) Owner(token string) (owner string, ok bool) {
	hash := sha256.Sum256([]byte(token))
	for _, e := range t.entries {
		if subtle.ConstantTimeCompare(hash[:], e.hash[:]) == 1 {
			owner, ok = e.owner, true
		}
	}
	return owner, ok
}
