package httpserver

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

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
