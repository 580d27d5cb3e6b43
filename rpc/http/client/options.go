package httpclient

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/rs/zerolog"

	"runnel/internal/headers"
)

// Options say which server to connect to. Proxies are taken from the environment (HTTPS_PROXY, NO_PROXY);
// certificates are checked against the system's roots.
type Options struct {
	URL     string
	Header  http.Header // sent with every request; its values are never shown
	MaxLine int         // bytes of the longest message from the server; 0 = 16 MiB
	// Returns how many runnels stand before the server, for headers.Hops; nil = the header is not sent.
	Hops func() int
	Log  zerolog.Logger

	written string   // the URL as it may be shown, without the values of variables; "" = as URL
	hidden  []string // the values of variables in the URL
}

var variable = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\$\{[A-Za-z_][A-Za-z0-9_]*\}`)
})

// NewOptions makes Options for a URL and headers that a user wrote. ${NAME} in the URL and in the value of a
// header is replaced by a variable, so that no secret need be written there.
func NewOptions(url string, header map[string]string, variables func(name string) string,
	log zerolog.Logger) (o Options, err error) {
	var values []string
	filled := func(what, text string) string {
		return variable().ReplaceAllStringFunc(text, func(reference string) string {
			name := reference[2 : len(reference)-1]
			value := variables(name)
			values = append(values, value)
			if value == "" {
				err = fmt.Errorf("the %s needs the variable %s, which %w", what, name, ErrNotSet)
			}
			return value
		})
	}
	o = Options{URL: filled("URL", url), Header: http.Header{}, Log: log, written: url}
	o.hidden = values
	if err != nil {
		return o, err // without the variable, the URL may not be valid
	}
	for name, value := range header {
		o.Header.Set(name, filled("header "+name, value))
	}
	return o, cmp.Or(o.check(), err)
}

// ErrNotSet is returned if a variable of a URL or a header is not set.
var ErrNotSet = errors.New("is not set")

// check returns an error for a URL or a header that cannot be sent, and for a header that the transport sends
// itself.
func (o *Options) check() error {
	u, err := url.Parse(o.URL)
	switch {
	case err != nil:
		return errors.New("the URL cannot be read: " + errors.Unwrap(err).Error())
	case u.Scheme != "https" && u.Scheme != "http" || u.Host == "":
		return errors.New("the URL must begin with https:// or http://, then a host")
	}
	for name, values := range o.Header {
		name = http.CanonicalHeaderKey(name)
		switch {
		case !headers.IsToken(name):
			// The name is not shown: it may be a secret that lacks its colon.
			return errors.New("the name of a header has characters that cannot be sent")
		case slices.Contains([]string{"Accept", "Content-Type", "Content-Length", "Connection",
			"Transfer-Encoding", "Host", "Last-Event-Id"}, name), strings.HasPrefix(name, "Mcp-"):
			return fmt.Errorf("the header %s is runnel's own to send", name)
		case slices.ContainsFunc(values, func(v string) bool { return !headers.IsValue(v) }):
			return fmt.Errorf("the value of the header %s has characters that cannot be sent", name)
		}
	}
	return nil
}
