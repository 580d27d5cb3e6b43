package config

import (
	"cmp"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"strings"

	httpserver "runnel/rpc/http"
)

// HTTP configures the HTTP server. Without an Addr there is none.
type HTTP struct {
	Addr           Address   `yaml:"addr"`
	NoStdio        bool      `yaml:"noStdio"`
	TokenFile      string    `yaml:"tokenFile"`
	Issuer         string    `yaml:"issuer"`
	Audience       string    `yaml:"audience"`
	Scopes         []string  `yaml:"scopes"`
	OwnerClaim     string    `yaml:"ownerClaim"`
	Cert           string    `yaml:"cert"`
	Key            string    `yaml:"key"`
	Origins        []string  `yaml:"origins"`
	TrustedProxies []Network `yaml:"trustedProxies"`
	Insecure       bool      `yaml:"insecure"`
	Advertise      URL       `yaml:"advertise"`
}

// Address is HOST:PORT, where a server listens; :PORT is on loopback.
type Address string

// UnmarshalText reads an address.
func (a *Address) UnmarshalText(text []byte) error {
	host, port, err := net.SplitHostPort(string(text))
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return Wrong(":PORT (loopback) or HOST:PORT", "%q is not an address", text)
	}
	*a = Address(net.JoinHostPort(cmp.Or(host, "127.0.0.1"), port))
	return nil
}

// Loopback reports whether only this machine reaches the address.
func (a Address) Loopback() bool { return httpserver.Loopback(string(a)) }

// URL is where another program reaches an HTTP server: its scheme, host and port.
type URL string

// UnmarshalText reads a URL.
func (u *URL) UnmarshalText(text []byte) error {
	parsed, err := url.Parse(string(text))
	if err != nil || parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Host == "" ||
		strings.Trim(parsed.Path, "/") != "" ||
		parsed.User != nil || parsed.RawQuery != "" {
		return Wrong("a URL without a path, such as http://10.0.0.5:8080", "%q is not one", text)
	}
	*u = URL(parsed.Scheme + "://" + parsed.Host)
	return nil
}

// Network is an address, or a network such as 10.0.0.0/8.
type Network struct{ netip.Prefix }

// UnmarshalText reads one of the two.
func (n *Network) UnmarshalText(text []byte) (err error) {
	if n.Prefix, err = httpserver.ParseProxy(string(text)); err != nil {
		return Wrong("an address, or a network such as 10.0.0.0/8", "%q is not an address", text)
	}
	return nil
}

// checkHTTP refuses settings of the HTTP server that do not go together.
func (c *Config) checkHTTP() error {
	var errs []error
	refuse := func(wrong bool, key, problem string) {
		if wrong {
			errs = append(errs, c.Locate("http", &Error{Key: key, Problem: problem}))
		}
	}
	h := &c.HTTP
	refuse(h.NoStdio && h.Addr == "", "noStdio",
		"leaves nothing to serve: name an address with http.addr (--http)")
	for _, key := range []string{"tokenFile", "issuer", "cert", "origins", "trustedProxies", "insecure",
		"advertise"} {
		// In a file, settings may wait for the address that a flag names.
		refuse(h.Addr == "" && c.Overridden("http."+key), key,
			"needs an address: name one with http.addr (--http)")
	}
	refuse(h.Issuer != "" && h.Audience == "", "issuer",
		"needs http.audience (--http-audience): a token that was issued for another server must not count here")
	const noIssuer = "concerns the tokens of an issuer: name it with http.issuer (--http-issuer)"
	refuse(h.Issuer == "" && h.Audience != "", "audience", noIssuer)
	refuse(h.Issuer == "" && len(h.Scopes) > 0, "scopes", noIssuer)
	refuse(h.Issuer == "" && h.OwnerClaim != "", "ownerClaim", noIssuer)
	refuse(h.Cert != "" && h.Key == "", "cert", "needs its private key: name it with http.key (--http-key)")
	refuse(h.Cert == "" && h.Key != "", "key", "needs its certificate: name it with http.cert (--http-cert)")
	refuse(h.Addr != "" && h.TokenFile == "" && h.Issuer == "" && !h.Insecure && !h.Addr.Loopback(), "addr",
		string(h.Addr)+" can be reached by other machines: say who may use it with "+
			"http.tokenFile (--http-token-file) or http.issuer (--http-issuer), or let everybody use it "+
			"with http.insecure (--http-insecure)")
	return errors.Join(errs...)
}
