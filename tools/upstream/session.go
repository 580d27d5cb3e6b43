package upstream

import (
	"context"
	"encoding/json"
	"slices"
	"sync/atomic"

	"github.com/rs/zerolog"

	"runnel/internal/signal"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tools"
	"runnel/tools/remote"
)

// session stands for the client outside of calls: it takes the servers' notifications and requests.
type session struct {
	// The first caller, whose capabilities the servers see; nil: nobody has called.
	first atomic.Pointer[rpc.Caller]
	open  atomic.Pointer[rpc.Caller] // the client of the handshake era, if there is one
	opens signal.Latch               // set after open
	// A string, the lowest level of log messages that servers send; nil: nobody has set it.
	level atomic.Value
	hops  hops

	elsewhere bool // the clients are those of other processes (Set.ServeOthers)
}

// meet records a caller.
func (s *session) meet(c *rpc.Caller) { s.first.CompareAndSwap(nil, c) }

// least returns the lowest level of log messages that the session wants, "" if nobody has set it.
func (s *session) least() string {
	level, _ := s.level.Load().(string)
	return level
}

// client returns the client that servers see.
func (s *session) client(version string) shownClient {
	client := shown(s.first.Load(), version)
	if s.elsewhere {
		caps := remote.Capabilities(true)
		caps.Sampling = &mcp.SamplingCapability{}
		client.Capabilities = rawjson.Encode(caps)
	}
	return client
}

// tell passes a notification on, if there is a session. The notification is dropped while too much is unread.
func (s *session) tell(method string, params json.RawMessage) {
	if c := s.open.Load(); c != nil {
		_ = c.TryNotify(method, params) // fails only when the reader has closed
	}
}

// stateless reports whether the client is of the stateless era: it can be asked only in the answer to a
// request.
func (s *session) stateless() bool {
	c := s.first.Load()
	return c != nil && c.Era == rpc.Stateless && s.open.Load() == nil
}

// start records the client that has opened a session.
func (s *session) start(c *rpc.Caller) {
	s.open.Store(c)
	s.opens.Set()
}

// request passes a server's request to the session. A server that is wrapped starts before the session is
// open, since its lists are part of the answer to initialize, and may ask for roots immediately: its request
// waits.
func (s *session) request(ctx context.Context, method string,
	params json.RawMessage) (json.RawMessage, error) {
	if c := s.first.Load(); c != nil && c.Era == rpc.Handshake {
		select {
		case <-s.opens.Done():
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	if c := s.open.Load(); c != nil {
		return tools.Request(ctx, c, method, params)
	}
	return nil, rpc.Errorf(mcp.CodeInternalError,
		"%s: no call is under way whose client could be asked", method)
}

// logLevels are the levels of log messages, the least severe first.
var logLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// logMessage passes on a server's log message: to the session if the level is high enough, or to the client
// of the call if that asked for log messages. caller is nil if the call is unknown.
func (s *session) logMessage(caller *rpc.Caller, params json.RawMessage) {
	to, least := s.open.Load(), s.least()
	if caller != nil && caller.Era == rpc.Stateless {
		to, least = caller, rawjson.Unquote(caller.Meta.LogLevel)
		if least == "" {
			// "the server MUST NOT send notifications/message" then (2026-07-28 server/utilities/logging).
			return
		}
	}
	if to != nil && slices.Index(logLevels,
		rawjson.StringMember(params, "level")) >= slices.Index(logLevels, least) {
		_ = to.TryNotify("notifications/message", toClient(params))
	}
}

// setLevel sets the level of log messages for all servers, including those that start later.
func (s *session) setLevel(level string) error {
	if !slices.Contains(logLevels, level) {
		return rpc.Errorf(mcp.CodeInvalidParams, "params.level must be one of %v", logLevels)
	}
	s.level.Store(level)
	return nil
}

// lower has a server of the handshake era send what a call of the stateless era asks for, in addition to what
// others have asked for.
func (s *session) lower(ctx context.Context, client *rpc.Client, level string, log zerolog.Logger) {
	if wanted := slices.Index(logLevels, level); wanted >= 0 &&
		(s.least() == "" || wanted < slices.Index(logLevels, s.least())) {
		s.level.Store(level)
		s.tellLevel(ctx, client, log)
	}
}

// tellLevel tells a server the lowest level of log messages to send, if somebody has set one.
func (s *session) tellLevel(ctx context.Context, client *rpc.Client, log zerolog.Logger) {
	level := s.least()
	if level == "" || client.Era() == rpc.Stateless || client.Capabilities().Logging == nil {
		return
	}
	if err := client.Call(ctx, "logging/setLevel", map[string]string{"level": level}, nil); err != nil {
		log.Debug().Err(err).Msg("upstream does not take the level of log messages")
	}
}
