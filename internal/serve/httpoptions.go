package serve

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"runnel/internal/system"
	httpserver "runnel/rpc/http"
	"runnel/rpc/http/oauth"
	"runnel/tools/config"
)

// httpOptions are the flags of the HTTP server.
type httpOptions struct {
	address           string // "" = none
	tokenFile         string
	issuer, audience  string
	ownerClaim        string
	scopes, origins   []string
	certificate, key  string
	proxies           httpserver.Proxies
	insecure, noStdio bool
}

func (o *httpOptions) register(flags *pflag.FlagSet) {
	flags.Func("http", "serve MCP over HTTP, too, at `ADDR`, path /mcp; :PORT = for this machine only", func(text string) (err error) {
		o.address, err = listenAddress(text)
		return err
	})
	flags.StringVar(&o.tokenFile, "http-token-file", "", "over HTTP, admit clients with a token from `FILE`, one \"TOKEN OWNER\" per line; they see the tasks of that owner")
	flags.StringVar(&o.issuer, "http-issuer", "", "over HTTP, admit clients with an access token (JWT) of the OAuth authorization server at `URL`")
	flags.StringVar(&o.audience, "http-audience", "", "the `AUDIENCE` of such tokens: the URL of this server as clients know it, such as https://mcp.example.com/mcp")
	flags.StringArrayVar(&o.scopes, "http-scope", nil, "a `SCOPE` that such tokens must have; repeatable")
	flags.StringVar(&o.ownerClaim, "http-owner-claim", "", "the `CLAIM` of such tokens that names the owner, whose tasks they see (default client_id, or sub in a token without it)")
	flags.StringVar(&o.certificate, "http-cert", "", "speak HTTPS with the certificate in `FILE` (PEM, with its chain); it is read again when it changes")
	flags.StringVar(&o.key, "http-key", "", "the private key of the certificate, in `FILE`")
	flags.StringArrayVar(&o.origins, "http-origin", nil, "let web pages of `ORIGIN` use the HTTP server, such as https://example.com; repeatable")
	flags.Func("http-trusted-proxy", "trust X-Forwarded-For and X-Forwarded-Proto of proxies at `ADDR`, an address or a network; repeatable", func(text string) error {
		proxy, err := httpserver.ParseProxy(text)
		if err != nil {
			return config.Wrong("an address, or a network such as 10.0.0.0/8", "%q is not an address", text)
		}
		o.proxies = append(o.proxies, proxy)
		return nil
	})
	flags.BoolVar(&o.insecure, "http-insecure", false, "listen beyond this machine without tokens: anybody who can reach it can run the tools")
	flags.BoolVar(&o.noStdio, "no-stdio", false, "serve HTTP only, until a signal")
}

// check refuses flags that do not go together.
func (o *httpOptions) check() error {
	wrong := func(format string, args ...any) error { return &UsageError{Err: fmt.Errorf(format, args...)} }
	switch {
	case o.address == "" && o.noStdio:
		return wrong("--no-stdio leaves nothing to serve: name an address with --http")
	case o.address == "" && (o.tokenFile != "" || o.issuer != "" || o.insecure || len(o.origins) > 0 || len(o.proxies) > 0 || o.certificate != ""):
		return wrong("the flags that begin with --http- need an address: name one with --http")
	case o.issuer != "" && o.audience == "":
		return wrong("--http-issuer needs --http-audience: a token that was issued for another server must not count here")
	case o.issuer == "" && (o.audience != "" || o.ownerClaim != "" || len(o.scopes) > 0):
		return wrong("--http-audience, --http-scope and --http-owner-claim concern the tokens of an issuer: name it with --http-issuer")
	case (o.certificate == "") != (o.key == ""):
		return wrong("--http-cert and --http-key belong together")
	case o.address != "" && o.tokenFile == "" && o.issuer == "" && !o.insecure && !httpserver.Loopback(o.address):
		return wrong("--http %s can be reached by other machines: say who may use it with --http-token-file or --http-issuer, or let everybody use it with --http-insecure", o.address)
	}
	return nil
}

// maxTokenFile limits the token file, in bytes.
const maxTokenFile = 1 << 20

// tokens reads the token file, nil if there is none.
func (o *httpOptions) tokens(log zerolog.Logger) (*httpserver.Fresh[*httpserver.Tokens], error) {
	if o.tokenFile == "" {
		return nil, nil
	}
	if info, err := os.Stat(o.tokenFile); err == nil {
		if _, readable := system.ReadableByOthers(o.tokenFile, info); readable {
			log.Warn().Str("file", o.tokenFile).Msg("other users can read the tokens: " + system.KeepPrivate + " keeps them yours")
		}
	}
	text, err := system.ReadNamed(o.tokenFile, maxTokenFile) // it may be a pipe, which can be read once
	started := false
	tokens, err := httpserver.NewFresh(log, func() (*httpserver.Tokens, error) {
		if started {
			text, _, err = system.ReadRegular(o.tokenFile, maxTokenFile)
		}
		if err != nil && (!started || !errors.Is(err, fs.ErrNotExist)) {
			return nil, err
		}
		tokens, err := httpserver.ReadTokens(bytes.NewReader(text))
		if started && errors.Is(err, httpserver.ErrNoTokens) { // the last token was taken out, or the file: that is what their owner wants
			log.Warn().Str("file", o.tokenFile).Msg("there is no token in the token file any more: no client with a token of it is admitted")
			err = nil
		}
		return tokens, err
	}, o.tokenFile)
	if err != nil {
		return nil, &UsageError{Err: fmt.Errorf("--http-token-file %s: %w", o.tokenFile, err)}
	}
	started = true
	return tokens, nil
}

// authority returns the issuer of access tokens, nil if there is none.
func (o *httpOptions) authority(log zerolog.Logger) (*httpserver.Authority, error) {
	if o.issuer == "" {
		return nil, nil
	}
	issuer, err := oauth.New(oauth.Options{Issuer: o.issuer, Audience: o.audience, Scopes: o.scopes, Owner: o.ownerClaim, Log: log})
	if err != nil {
		return nil, &UsageError{Err: fmt.Errorf("--http-issuer: %w", err)}
	}
	a := &httpserver.Authority{Issuer: issuer, URL: o.issuer, Scopes: o.scopes}
	if u, err := url.Parse(o.audience); err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http") {
		a.Resource = o.audience
	}
	return a, nil
}

// keyPair reads the certificate and its key, nil if there is none.
func (o *httpOptions) keyPair(log zerolog.Logger) (*httpserver.Fresh[*tls.Certificate], error) {
	if o.certificate == "" {
		return nil, nil
	}
	pair, err := httpserver.NewFresh(log, func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(o.certificate, o.key)
		return &pair, err
	}, o.certificate, o.key)
	if err != nil {
		return nil, &UsageError{Err: fmt.Errorf("--http-cert and --http-key: %w", err)}
	}
	return pair, nil
}

// LoopbackFlag adds a flag for an address that only this machine reaches.
func LoopbackFlag(flags *pflag.FlagSet, to *string, name, usage string) {
	flags.Func(name, usage, func(text string) error {
		address, err := listenAddress(text)
		if err == nil && !httpserver.Loopback(address) {
			err = config.Wrong("an address of this machine alone, such as 127.0.0.1:8080", "%q can be reached by other machines", text)
		}
		*to = address
		return err
	})
	flags.Lookup(name).DefValue = *to
}
