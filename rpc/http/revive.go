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

// The id of a session contains what initialize said about the client, so that a server that does not know the
// session can open it again: after a restart, or after it has closed the idle session. A session that its
// client has ended stays ended (ended.go).

const (
	// maxOpening limits that content, in bytes of JSON: each request repeats the id. The session of a client
	// that says more is not opened again.
	maxOpening = 2 << 10
	// maxName limits the rest of an id.
	maxName = 64
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
	return stamp() + id + "." + base64.RawURLEncoding.EncodeToString(text)
}

// opening returns the params of initialize that an id contains, nil if it contains none.
func opening(id string) []byte {
	name, encoded, _ := strings.Cut(id, ".")
	params, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil || len(name) > maxName || len(params) > maxOpening || !json.Valid(params) || !rawjson.IsObject(params) {
		return nil
	}
	return params
}

var errNoSession = errors.New("no such session: send initialize again")

// revive opens a session again from its id.
func (s *Server) revive(ctx context.Context, key sessionKey) (*session, error) {
	params := opening(key.id)
	if params == nil || s.notes.has(key) {
		return nil, errNoSession
	}
	if problem := s.enter(key.owner); problem != "" { // the owner must not count as idle before the session is added
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
	c := s.newSession(served, key)
	answer := newStream("", nil)
	if _, err = c.Take(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":%s}`, params), answer); err == nil {
		var events []numbered
		if events, _, err = answer.begin().next(ctx); err == nil && len(events) > 0 {
			err = c.missed(ctx, rawjson.Member(rawjson.Member(events[0].text, "result"), "capabilities"))
		}
	}
	if err != nil || c.Version() == nil {
		s.endSession(c)
		return nil, errNoSession
	}
	s.o.Log.Info().Str("owner", key.owner).Msg("a session is opened again from its id")
	if c, err = s.add(c); err == nil && s.notes.has(key) { // it was ended meanwhile
		s.release(c)
		s.close(c)
		return nil, errNoSession
	}
	return c, err
}

// missed notifies the client of a revived session that all lists may have changed: what waited on the
// standing stream was lost.
func (c *session) missed(ctx context.Context, capabilities []byte) error {
	for _, list := range []string{"tools", "prompts", "resources"} {
		if string(rawjson.Member(rawjson.Member(capabilities, list), "listChanged")) != "true" {
			continue
		}
		if err := c.standing.add(ctx, fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/%s/list_changed"}`, list), false); err != nil {
			return err
		}
	}
	return nil
}

// noteEnded notes that a session must not be opened again.
func (s *Server) noteEnded(key sessionKey) {
	if err := s.notes.note(key); err != nil {
		s.o.Log.Warn().Err(err).Msg("cannot note that a session has ended: its client could open it again after a restart")
	}
}
