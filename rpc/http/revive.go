package httpserver

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"runnel/rpc/rawjson"
)

// The id of a session holds what initialize said of its client, so that a server which does not know the session can open it again: one
// that was started again, or that has closed the session because nobody used it. A session that its client has ended stays ended as long
// as the server runs.

const (
	// maxOpening is how long that may be, in bytes of JSON: the id goes with each request. A session of a client that says more is not opened again.
	maxOpening = 2 << 10
	// maxName is how long the rest of an id may be: those of ended sessions are kept.
	maxName = 64
	// maxEnded is how many sessions are remembered that their clients have ended.
	maxEnded = 10_000
)

// newID makes a session's id from the params of initialize.
func newID(params []byte) string {
	id := rand.Text()
	if !rawjson.IsObject(params) {
		return id
	}
	said := map[string]json.RawMessage{}
	for _, name := range []string{"protocolVersion", "capabilities", "clientInfo"} {
		if value := rawjson.Member(params, name); value != nil {
			said[name] = value
		}
	}
	text := rawjson.Encode(said)
	if len(text) > maxOpening {
		return id
	}
	return id + "." + base64.RawURLEncoding.EncodeToString(text)
}

// opening is the params of initialize that an id holds, nil if it holds none.
func opening(id string) []byte {
	name, encoded, _ := strings.Cut(id, ".")
	params, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil || len(name) > maxName || len(params) > maxOpening || !json.Valid(params) || !rawjson.IsObject(params) {
		return nil
	}
	return params
}

var errNoSession = errors.New("no such session: send initialize again")

// revive opens a session again by its id. What it had subscribed to, and what waited on its standing stream, is gone.
func (s *Server) revive(ctx context.Context, key sessionKey) (*session, error) {
	params := opening(key.id)
	s.mu.Lock()
	_, ended := s.endedByClient[key]
	s.mu.Unlock()
	if params == nil || ended {
		return nil, errNoSession
	}
	if problem := s.enter(key.owner); problem != "" { // until the session can be seen, the owner must not pass for idle
		return nil, errors.New(problem)
	}
	defer s.leave(key.owner)
	served, err := s.o.Serves(key.owner)
	switch {
	case err != nil:
		return nil, err
	case !served.Resumes():
		return nil, errNoSession
	}
	c := s.newSession(served, key, rand.Text()[:4])
	answer := newStream("", nil)
	if _, err = c.Take(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":%s}`, params), noteVersion{answer, c}); err == nil {
		_, _, err = answer.begin().next(ctx)
	}
	if err != nil || c.version.Load() == nil {
		s.over(c)
		return nil, errNoSession
	}
	s.o.Log.Info().Str("owner", key.owner).Msg("a session goes on that was opened before")
	return s.add(c)
}
