package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// discoverTTL is how long clients may keep what server/discover says: it changes only with the binary and its config.
const discoverTTL = time.Hour

// stateless makes the caller of a request of the stateless era from its _meta alone: "no state should be inferred
// from previous requests" (2026-07-28 basic, "Statelessness").
func (s *session) stateless(meta *mcp.RequestMeta) (Caller, *Error) {
	c := Caller{Era: Stateless, session: s}
	var name string
	if Unmarshal(meta.ProtocolVersion, &name) != nil || name == "" {
		return c, Errorf(mcp.CodeInvalidParams, "params._meta[%q] must be a protocol version", mcp.MetaProtocolVersion)
	}
	if c.Version = mcp.LookupVersion(name); c.Version == nil || !c.Version.Stateless {
		message := "unsupported protocol version"
		if c.Version != nil {
			message += " in _meta: " + name + " is spoken in a session, which initialize opens"
		}
		return c, &Error{Code: mcp.CodeUnsupportedVersion, Message: message, Data: unsupported{supportedVersions(), name[:min(len(name), maxID)]}}
	}
	if !IsObject(meta.ClientCapabilities) {
		return c, Errorf(mcp.CodeInvalidParams, "params._meta[%q] must be an object", mcp.MetaClientCapabilities)
	}
	// "If the [logLevel] is not a recognized log level, the server SHOULD reject that request" (server/utilities/logging)
	if meta.LogLevel != nil && !slices.Contains(logLevels, string(meta.LogLevel)) {
		return c, Errorf(mcp.CodeInvalidParams, "params._meta[%q] must be one of %s", mcp.MetaLogLevel, strings.Join(logLevels, ", "))
	}
	// Unmarshal goes on behind a member of the wrong type, which then reads as absent.
	_ = Unmarshal(meta.ClientCapabilities, &c.Capabilities)
	_ = Unmarshal(meta.ClientInfo, &c.Client)
	return c, nil
}

// logLevels are the values of logLevel, as they are encoded.
var logLevels = []string{`"debug"`, `"info"`, `"notice"`, `"warning"`, `"error"`, `"critical"`, `"alert"`, `"emergency"`}

// isStateless tells the eras apart: only requests of the stateless era carry its fields in _meta.
func isStateless(meta *mcp.RequestMeta) bool {
	return meta.ProtocolVersion != nil || meta.ClientCapabilities != nil
}

// IsObject tells whether encoded JSON is an object, and not anything else or nothing.
func IsObject(v []byte) bool { return len(v) > 0 && v[0] == '{' }

// unsupported is the data of an UnsupportedProtocolVersionError.
type unsupported struct {
	Supported []string `json:"supported"`
	Requested string   `json:"requested"`
}

// supportedVersions are those of the stateless era, newest first: "Use one of the versions in its advertised supported list. Do not fall
// back to initialize" (basic/transports/stdio). A version of the handshake era would be refused in _meta; what opens a session is initialize.
func supportedVersions() []string {
	var names []string
	for _, v := range slices.Backward(mcp.Versions) {
		if v.Stateless {
			names = append(names, v.Name)
		}
	}
	return names
}

// discover answers server/discover.
func (s *Server) discover(ctx context.Context, c *Caller, _ json.RawMessage) (any, error) {
	ttl := discoverTTL
	if s.prepare != nil {
		s.prepare(ctx, c)
		ttl = 0 // what other servers can do changes when they like
	}
	_, instructions := s.introduction(c)
	r := mcp.DiscoverResult{
		SupportedVersions: supportedVersions(),
		Instructions:      instructions,
		Cacheable:         mcp.Cacheable{TTLMs: ttl.Milliseconds(), CacheScope: "public"},
	}
	for _, f := range s.declare {
		f(c.Version, &r.Capabilities)
	}
	return r, nil
}

// dress makes of a result what the stateless era asks of every one: a resultType, and in _meta who the server is.
// It works on the encoded result, so that no handler has to know.
func (s *Server) dress(c *Caller, result any) (json.RawMessage, error) {
	e := newEncoder()
	defer e.free()
	if result == nil {
		result = struct{}{}
	}
	if err := e.json.Encode(result); err != nil {
		return nil, err
	}
	info, _ := s.introduction(c)
	server, err := json.Marshal(info)
	if err != nil {
		return nil, err
	}
	var dressed, meta bytes.Buffer
	dressed.WriteByte('{')
	typed := false
	for it := rawjson.MembersOf(e.buf.Bytes()); it.Next(); {
		switch string(it.Name) {
		case "_meta":
			meta.Write(bytes.TrimSpace(it.Value[1 : len(it.Value)-1]))
			continue
		case "resultType":
			typed = true
		}
		appendMember(&dressed, it.Quoted, it.Value)
	}
	if !typed {
		appendMember(&dressed, []byte(`"resultType"`), []byte(`"`+mcp.ResultComplete+`"`))
	}
	if meta.Len() > 0 {
		meta.WriteByte(',')
	}
	meta.WriteString(`"` + mcp.MetaServerInfo + `":`)
	meta.Write(server)
	appendMember(&dressed, []byte(`"_meta"`), append(append([]byte{'{'}, meta.Bytes()...), '}'))
	dressed.WriteByte('}')
	return dressed.Bytes(), nil
}
