package httpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"runnel/rpc/rawjson"
)

// A session is stored in the state, so that a front that does not have it can open it again: after a restart,
// after it has closed the idle session, or because a balancer has sent the request to another front. One
// front at a time has a session; the others pass requests on to it (forward.go), if it has said at which URL
// they reach it.

// Sessions keeps an owner's sessions where all fronts of a state find them (tasks.Sessions).
type Sessions interface {
	Session(ctx context.Context, id string) (session []byte, version uint64, err error)
	PutSession(ctx context.Context, id string, session []byte, version uint64) (uint64, error)
	DeleteSession(ctx context.Context, id string) error
}

const (
	// maxOpening limits what initialize said about the client, in bytes, and maxStored what is stored of a
	// session: one that is longer is not stored, and ends with its front.
	maxOpening = 16 << 10
	maxStored  = 64 << 10
	// lookAfter is how long a front believes that it still has a session.
	lookAfter = 5 * time.Second
	// storeAfter is how often a session that is in use is stored again, because what is stored expires.
	storeAfter = time.Hour
)

// stored is a session as the state keeps it.
type stored struct {
	Opening json.RawMessage   `json:"opening"`         // what initialize said about the client
	Added   []json.RawMessage `json:"added,omitempty"` // requests that have changed it since
	// Front is the address at which other fronts reach the one that has it; "" = none.
	Front string `json:"front,omitempty"`
}

var errNoSession = errors.New("no such session: send initialize again")

// load reads a session from the state. It fails with errNoSession if it was never opened, or has ended.
func (s *Server) load(ctx context.Context, key sessionKey) (found stored, version uint64, err error) {
	if s.o.Sessions == nil {
		return found, 0, errNoSession
	}
	text, version, err := s.o.Sessions(key.owner).Session(ctx, key.id)
	// A session that does not exist has an empty text.
	if err == nil && (json.Unmarshal(text, &found) != nil || !rawjson.IsObject(found.Opening)) {
		err = errNoSession
	}
	return found, version, err
}

// keep stores a new session. If it cannot be stored, only this front knows it.
func (s *Server) keep(ctx context.Context, c *session, params []byte) {
	if s.o.Sessions == nil || !rawjson.IsObject(params) {
		return
	}
	opening := map[string]json.RawMessage{}
	for _, name := range []string{"protocolVersion", "capabilities", "clientInfo"} {
		if value := rawjson.Member(params, name); value != nil {
			opening[name] = value
		}
	}
	text := rawjson.Encode(opening)
	if len(text) > maxOpening {
		return
	}
	c.storing.Lock()
	defer c.storing.Unlock()
	c.stored = stored{Opening: text, Front: s.o.Advertise}
	s.put(ctx, c)
}

// put stores c.stored. c.storing is held. It reports false if another front has stored the session since.
func (s *Server) put(ctx context.Context, c *session) bool {
	text, err := json.Marshal(c.stored)
	if err == nil && len(text) > maxStored {
		c.version = 0
		if err = s.o.Sessions(c.owner).DeleteSession(ctx, c.id); err == nil {
			err = fmt.Errorf("what it has subscribed to takes more than %d bytes", maxStored)
		}
	} else if err == nil {
		version, failed := s.o.Sessions(c.owner).PutSession(ctx, c.id, text, c.version)
		if failed == nil && version == 0 {
			return false
		}
		if err = failed; err == nil {
			c.version = version
			c.storedAt, c.seen = time.Now(), time.Now()
		}
	}
	if err != nil {
		s.o.Log.Warn().Err(err).Str("owner", c.owner).
			Msg("a session is not stored: its client has to begin again after a restart, or at another front")
	}
	return true
}

// change stores a change of a session. It does nothing if the session is not stored.
func (s *Server) change(ctx context.Context, c *session, do func(*stored)) {
	c.storing.Lock()
	defer c.storing.Unlock()
	for again := c.version > 0; again; again = s.look(ctx, c) {
		do(&c.stored)
		if s.put(ctx, c) {
			return
		}
	}
}

// stays reports whether this front still has a session: the client may have ended it at another one, or
// another one has taken it over. The state is asked from time to time.
func (s *Server) stays(ctx context.Context, c *session) bool {
	c.storing.Lock()
	defer c.storing.Unlock()
	return c.version == 0 || time.Since(c.seen) < lookAfter || s.look(ctx, c)
}

// look reads a session from the state, and reports whether this front still has it. c.storing is held.
func (s *Server) look(ctx context.Context, c *session) bool {
	found, version, err := s.load(ctx, c.sessionKey)
	switch {
	case err == errNoSession, err == nil && found.Front != s.o.Advertise:
		return false
	case err == nil:
		c.stored, c.version = found, version
		c.seen = time.Now()
	}
	return true // if the state does not answer, nothing else has either
}

// add notes a request that has changed a session: a subscription, or the log level.
func (in *stored) add(request []byte) {
	method, params := rawjson.StringMember(request, "method"), rawjson.Member(request, "params")
	uri := rawjson.StringMember(params, "uri")
	// It replaces one.
	in.Added = slices.DeleteFunc(slices.Clone(in.Added), func(before json.RawMessage) bool {
		level := rawjson.StringMember(before, "method") == "logging/setLevel"
		return level == (method == "logging/setLevel") &&
			(level || rawjson.StringMember(rawjson.Member(before, "params"), "uri") == uri)
	})
	if method == "resources/unsubscribe" {
		return
	}
	text, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": 0, "method": method, "params": json.RawMessage(params),
	})
	if err == nil { // otherwise the request is refused, too
		in.Added = append(in.Added, text)
	}
}

// revive opens a session again, as it was stored.
func (s *Server) revive(ctx context.Context, key sessionKey, found stored, version uint64) (*session, error) {
	// The owner must not count as idle before the session is added.
	if problem := s.enter(key.owner); problem != "" {
		return nil, errors.New(problem)
	}
	defer s.leave(key.owner)
	served, err := s.o.Serves(key.owner)
	if err != nil {
		return nil, err
	}
	c := s.newSession(served, key)
	c.stored, c.version = found, version
	opened, err := c.again(ctx, fmt.Appendf(nil,
		`{"jsonrpc":"2.0","id":0,"method":"initialize","params":%s}`, found.Opening))
	if err == nil && c.Version() == nil {
		err = errNoSession
	}
	for _, request := range found.Added {
		if err == nil {
			_, err = c.again(ctx, request)
		}
	}
	if err == nil {
		err = c.missed(ctx, rawjson.Member(rawjson.Member(opened, "result"), "capabilities"))
	}
	if err != nil {
		s.endSession(c)
		return nil, errNoSession
	}
	s.o.Log.Info().Str("owner", key.owner).Msg("a session is opened again as it was stored")
	// It was ended, or taken over, since it was read.
	if c, err = s.add(ctx, c); err == nil && !s.stays(ctx, c) {
		s.release(c)
		s.close(c)
		return nil, errNoSession
	}
	return c, err
}

// again takes a request that the client has sent before, and returns the answer.
func (c *session) again(ctx context.Context, request []byte) (answer []byte, err error) {
	out := newStream("", nil)
	if _, err := c.Take(request, out); err != nil {
		return nil, err
	}
	events, _, err := out.begin().next(ctx)
	if err != nil || len(events) == 0 {
		return nil, err
	}
	return events[0].text, nil
}

// missed notifies the client of a revived session that all lists may have changed, and what it has subscribed
// to: what waited on the standing stream was lost.
func (c *session) missed(ctx context.Context, capabilities []byte) error {
	for _, list := range []string{"tools", "prompts", "resources"} {
		if string(rawjson.Member(rawjson.Member(capabilities, list), "listChanged")) != "true" {
			continue
		}
		line := fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/%s/list_changed"}`, list)
		if err := c.standing.add(ctx, line, false); err != nil {
			return err
		}
	}
	for _, request := range c.stored.Added {
		uri := rawjson.Member(rawjson.Member(request, "params"), "uri")
		if uri == nil {
			continue
		}
		line := fmt.Appendf(nil,
			`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":%s}}`, uri)
		if err := c.standing.add(ctx, line, false); err != nil {
			return err
		}
	}
	return nil
}
