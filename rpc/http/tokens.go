package httpserver

import (
	"bufio"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

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

// lookPause is the shortest time between two checks whether files have changed.
const lookPause = time.Second

// Fresh is the content of some files, such as certificates, read again when it is asked for and they have
// changed.
type Fresh[T any] struct {
	files []string
	read  func() (T, error)
	log   zerolog.Logger

	mu     sync.Mutex
	looked time.Time
	seen   []os.FileInfo // of the files when they were last read
	value  T
	said   string // the last error that was logged
}

// NewFresh reads the files, all of which must exist.
func NewFresh[T any](log zerolog.Logger, read func() (T, error), files ...string) (*Fresh[T], error) {
	f := &Fresh[T]{files: files, read: read, log: log, looked: time.Now()}
	f.seen = f.stat()
	var err error
	f.value, err = read()
	return f, err
}

// Get returns the content of the files. If read returns an error, it returns the last valid content.
func (f *Fresh[T]) Get() T {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.looked) < lookPause {
		return f.value
	}
	f.looked = time.Now()
	now := f.stat()
	if slices.EqualFunc(now, f.seen, unchanged) {
		return f.value
	}
	value, err := f.read()
	switch {
	case err == nil:
		f.value = value
		f.seen = now
		f.said = ""
		f.log.Info().Strs("files", f.files).Msg("read again")
	case err.Error() != f.said: // one file may be written before the other
		f.said = err.Error()
		f.log.Error().Err(err).Strs("files", f.files).
			Msg("the files are not valid: their last valid content is used")
	}
	return f.value
}

// stat returns what the files are now; nil for one that is missing.
func (f *Fresh[T]) stat() (infos []os.FileInfo) {
	for _, file := range f.files {
		info, _ := os.Stat(file) // read says what is wrong with it
		infos = append(infos, info)
	}
	return infos
}

// unchanged reports whether a file is as it was. A pipe, which changes when it is read, and is empty
// afterwards, never changes.
func unchanged(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	return os.SameFile(a, b) && (!a.Mode().IsRegular() ||
		a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()))
}
