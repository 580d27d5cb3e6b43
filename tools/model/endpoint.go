package model

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"runnel/internal/headers"
	"runnel/tools/config"
)

// buildAPI checks the URL and the headers, as far as they are known before a call.
func (m *Model) buildAPI() error {
	m.api = apis[m.conf.API]
	for _, name := range slices.Sorted(maps.Keys(m.conf.Headers)) {
		key := "model.headers." + name
		switch {
		case !headers.IsToken(name): // it is not shown: it may be a secret that lacks its colon
			return &config.Error{Key: "model.headers",
				Problem: "the name of a header has characters that cannot be sent", Allowed: "NAME: VALUE"}
		case slices.Contains(ownHeaders, http.CanonicalHeaderKey(name)):
			return &config.Error{Key: key, Problem: "is runnel's own to send", Allowed: "another header"}
		case !headers.IsValue(m.conf.Headers[name]):
			return &config.Error{Key: key, Problem: notInHeader, Allowed: "one line of text"}
		}
	}
	if m.conf.API == config.APISampling || strings.Contains(m.conf.URL, "${") { // known when it is called
		return nil
	}
	u, ok := parseURL(m.conf.URL)
	if !ok {
		return &config.Error{Key: "model.url", Problem: notURL, Allowed: allowedURL}
	}
	if m.conf.API == "openai" {
		m.api = chat{own: u.Hostname() == "api.openai.com"}
	}
	return nil
}

// parseURL reads the URL of a server.
func parseURL(text string) (u *url.URL, ok bool) {
	u, err := url.Parse(text)
	return u, err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != ""
}

const (
	notURL      = "is not the URL of a server"
	allowedURL  = "http:// or https://, then a host, such as https://api.openai.com/v1"
	notInHeader = "has a character that no header may have, such as the end of a line"
)

// ownHeaders are those that a config cannot set: what they say is about the body, or about the connection.
var ownHeaders = []string{"Accept-Encoding", "Connection", "Content-Length", "Content-Type", "Host",
	"Transfer-Encoding"}

// endpoint returns the URL and the headers of requests to a path of the API. The error is a *failure, which
// no attempt changes.
func (m *Model) endpoint(path string) (at string, header http.Header, err error) {
	fill := func(key, text string) (filled string) {
		filled, unset := config.Expand(text, m.vars)
		switch {
		case err != nil:
		case unset != "":
			err = &failure{message: fmt.Sprintf("%s needs the variable %s, which is not set where runnel runs", key, unset)}
		case !headers.IsValue(filled):
			err = &failure{message: key + " " + notInHeader}
		}
		return filled
	}
	at, key := fill("model.url", m.conf.URL), fill("model.key", m.conf.Key)
	header = http.Header{"Content-Type": {"application/json"}, "User-Agent": {"runnel"}}
	for name, value := range m.api.authorize(key) {
		header.Set(name, value)
	}
	for _, name := range slices.Sorted(maps.Keys(m.conf.Headers)) {
		header.Set(name, fill("model.headers."+name, m.conf.Headers[name]))
	}
	if err != nil {
		return "", nil, err
	}
	u, ok := parseURL(at)
	if !ok {
		return "", nil, &failure{message: "model.url " + notURL + ": it must be " + allowedURL}
	}
	u.Path = pathBelow(u.Path, path) // before a query
	return u.String(), header, nil
}

// pathBelow returns the path of an API below that of a base URL, which may have its beginning already: what a
// base URL is, libraries and providers say in more than one way.
func pathBelow(base, path string) string {
	base = strings.TrimSuffix(base, "/")
	if strings.HasSuffix(base, path) {
		return base
	}
	for _, begin := range []string{"/v1", "/api"} {
		if strings.HasPrefix(path, begin+"/") {
			base = strings.TrimSuffix(base, begin)
		}
	}
	return base + path
}

// newHTTP makes the client of a model. HTTP/2, proxies of the environment and the system's roots are those of
// net/http.
func newHTTP() *http.Client {
	via := http.DefaultTransport.(*http.Transport).Clone()
	via.MaxIdleConnsPerHost = 16
	return &http.Client{Transport: via, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // the key is not meant for another server
	}}
}
