package httpserver

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"runnel/internal/headers"
	"runnel/internal/oauth"
	"runnel/rpc/mcp"
)

// admit finds out whose tasks a request may see, and refuses a request without a valid token: "Invalid or
// expired tokens MUST receive a HTTP 401 response" (basic/authorization, "Token Handling").
func (s *Server) admit(w *statusWriter, r *http.Request) (owner string, ok bool) {
	if s.o.Tokens == nil && s.o.Authority == nil {
		return s.o.Owner, true
	}
	// "If the request lacks any authentication information [...], the resource server SHOULD NOT include an
	// error code" (RFC 6750, 3.1).
	about := ""
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	err := errors.New("send a bearer token that the server knows, as Authorization: Bearer TOKEN")
	if strings.EqualFold(scheme, "Bearer") && token != "" && len(r.Header.Values("Authorization")) == 1 {
		about = "invalid_token"
		if s.o.Tokens != nil {
			if owner, ok := s.o.Tokens.Get().Owner(token); ok {
				w.admitted = func() bool {
					now, ok := s.o.Tokens.Get().Owner(token)
					return ok && now == owner
				}
				return owner, true
			}
		}
		if s.o.Authority != nil {
			var bearer oauth.Bearer
			if bearer, err = s.o.Authority.Check(r.Context(), token); err == nil {
				w.admitted = func() bool { return time.Now().Before(bearer.Until) }
				return bearer.Owner, true
			}
		}
	}
	status := http.StatusUnauthorized
	switch {
	case errors.Is(err, oauth.ErrUnreachable):
		s.o.Log.Error().Err(err).Msg("a token cannot be checked")
		w.Header().Set("Retry-After", "10")
		refuse(w, http.StatusServiceUnavailable, nil, mcp.CodeInternalError,
			"the token cannot be checked now: try again")
		return "", false
	case errors.Is(err, oauth.ErrScope):
		status, about = http.StatusForbidden, "insufficient_scope"
	}
	w.Header().Set("WWW-Authenticate", s.challenge(r, about, err))
	refuse(w, status, nil, mcp.CodeInvalidRequest, err.Error())
	return "", false
}

// challenge says how to get access: "MCP servers MUST [...] include the resource metadata URL in the
// WWW-Authenticate HTTP header" or serve it at a well-known URI; this server does both. "MCP servers SHOULD
// include a scope parameter".
func (s *Server) challenge(r *http.Request, about string, problem error) string {
	var parts []string
	add := func(name, value string) {
		if value != "" {
			parts = append(parts, name+`="`+strings.NewReplacer(`\`, "", `"`, "'").Replace(value)+`"`)
		}
	}
	add("realm", "runnel")
	add("error", about)
	if about != "" {
		add("error_description", problem.Error())
	}
	if s.o.Authority == nil {
		return "Bearer " + strings.Join(parts, ", ")
	}
	// The client's Host may be no address.
	if resource, err := url.Parse(s.resource(r)); err == nil {
		add("resource_metadata", resource.Scheme+"://"+resource.Host+metadataPath+
			strings.TrimSuffix(resource.EscapedPath(), "/"))
	}
	add("scope", strings.Join(s.o.Authority.Scopes, " "))
	return "Bearer " + strings.Join(parts, ", ")
}

// resource returns this server's URL as its clients know it.
func (s *Server) resource(r *http.Request) string {
	if s.o.Authority.Resource != "" {
		return s.o.Authority.Resource
	}
	u := url.URL{Scheme: "http", Host: r.Host, Path: "/mcp"}
	if s.o.Proxies.encrypted(r) {
		u.Scheme = "https"
	}
	return u.String()
}

// metadataPath is where this resource is described (RFC 9728); the path of the resource may follow.
const metadataPath = "/.well-known/oauth-protected-resource"

// describe answers with the metadata of this resource; it needs no token.
func (s *Server) describe(w http.ResponseWriter, r *http.Request) {
	if !s.guard.admits(w, r) {
		return
	}
	text, _ := json.Marshal(struct { // strings always encode
		Resource string   `json:"resource"`
		Servers  []string `json:"authorization_servers"`
		Scopes   []string `json:"scopes_supported,omitempty"`
		Methods  []string `json:"bearer_methods_supported"`
	}{s.resource(r), []string{s.o.Authority.URL}, s.o.Authority.Scopes, []string{"header"}})
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "max-age=300")
	_, _ = w.Write(text) // fails only when the reader has closed
}

// Loopback reports whether an address can only be reached from this machine.
func Loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && isLoopback(host)
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && ip.Unmap().IsLoopback()
}

// guard keeps out requests from pages of other sites.
type guard struct {
	origins  []string // allowed by the options
	host     string   // the server's own, "" if it is unknown
	loopback bool     // the server listens on this machine only
}

// admits reports whether a request may proceed. Otherwise it has answered the request: with a refusal, or
// with permission for a browser that only asked whether it may send one.
func (g guard) admits(w http.ResponseWriter, r *http.Request) bool {
	if status, problem := g.refuses(r); status != 0 {
		refuse(w, status, nil, mcp.CodeInvalidRequest, problem)
		return false
	}
	return !g.allows(w, r)
}

// refuses returns the status for a request that must be refused, 0 for others. "Servers MUST validate the
// Origin header on all incoming connections to prevent DNS rebinding attacks"
// (basic/transports/streamable-http, "Security & Endpoint"): a page of another site has that site's name in
// Origin, and in Host too once that name resolves to this machine.
func (g guard) refuses(r *http.Request) (status int, problem string) {
	for _, origin := range r.Header.Values("Origin") {
		if !g.trusts(origin) {
			return http.StatusForbidden, "this Origin may not use the server: allow it with --http-origin"
		}
	}
	if r.URL.Host != "" && !strings.EqualFold(r.URL.Host, r.Host) { // HTTP/2 has a place for each of them
		return http.StatusForbidden, "the request names two hosts"
	}
	if g.loopback {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		if !isLoopback(host) && !strings.EqualFold(host, g.host) {
			return http.StatusForbidden, "this Host is not the server's: it serves localhost only"
		}
	}
	return 0, ""
}

// Guarded returns a handler for a listener's address that refuses requests from pages of other sites, as the
// server does.
func Guarded(address net.Addr, handler http.Handler) http.Handler {
	g := guard{loopback: Loopback(address.String())}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status, _ := g.refuses(r); status != 0 {
			http.Error(w, "this Host or Origin is not of this machine", status)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// named reports whether the options allow an origin.
func (g guard) named(origin string) bool {
	return slices.ContainsFunc(g.origins, func(o string) bool { return strings.EqualFold(o, origin) })
}

// allows lets pages of an allowed origin use the server (CORS): otherwise browsers would not send their
// requests, nor show them the answers. It reports whether a browser has only asked for permission, which it
// does without a token.
func (g guard) allows(w http.ResponseWriter, r *http.Request) (asked bool) {
	origin := r.Header.Get("Origin")
	if !g.named(origin) {
		return false
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Vary", "Origin")
	h.Set("Access-Control-Expose-Headers", headers.Session+", WWW-Authenticate")
	if r.Method != http.MethodOptions {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "POST, GET, DELETE")
	allowed := []string{"Authorization", "Content-Type", "Last-Event-Id", headers.Version, headers.Session,
		headers.Method, headers.Name}
	for wanted := range strings.SplitSeq(r.Header.Get("Access-Control-Request-Headers"), ",") {
		if name := http.CanonicalHeaderKey(strings.TrimSpace(wanted)); strings.HasPrefix(name,
			headers.Param) {
			allowed = append(allowed, name)
		}
	}
	h.Set("Access-Control-Allow-Headers", strings.Join(allowed, ", "))
	w.WriteHeader(http.StatusNoContent)
	return true
}

// trusts reports whether pages of an origin may use the server: those of this machine, and those that the
// options allow.
func (g guard) trusts(origin string) bool {
	if g.named(origin) {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && isLoopback(u.Hostname())
}
