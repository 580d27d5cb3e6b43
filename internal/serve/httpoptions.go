package serve

import (
	"errors"
	"fmt"
	"os"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	httpserver "runnel/rpc/http"
)

// httpOptions say who may come in over HTTP, beside the client on stdin and stdout.
type httpOptions struct {
	address, tokenFile string // "" = none
	origins            []string
	insecure, noStdio  bool
}

func (o *httpOptions) register(flags *pflag.FlagSet) {
	flags.Func("http", "serve MCP over HTTP, too, at `ADDR`, path /mcp; :PORT = for this machine only", func(text string) (err error) {
		o.address, err = listenAddress(text)
		return err
	})
	flags.StringVar(&o.tokenFile, "http-token-file", "", "over HTTP, let in who has a token of `FILE`, one \"TOKEN OWNER\" a line, and see the tasks of its owner")
	flags.StringArrayVar(&o.origins, "http-origin", nil, "let web pages of `ORIGIN` use the HTTP server, such as https://example.com; repeatable")
	flags.BoolVar(&o.insecure, "http-insecure", false, "listen beyond this machine without tokens: everybody who reaches it can run the tools")
	flags.BoolVar(&o.noStdio, "no-stdio", false, "serve HTTP alone, until a signal")
}

// check finds what does not go together.
func (o *httpOptions) check() error {
	switch {
	case o.address == "" && o.noStdio:
		return &UsageError{Err: errors.New("--no-stdio leaves nothing to serve: name an address with --http")}
	case o.address == "" && (o.tokenFile != "" || o.insecure || len(o.origins) > 0):
		return &UsageError{Err: errors.New("--http-token-file, --http-origin and --http-insecure need an address: name one with --http")}
	case o.address != "" && o.tokenFile == "" && !o.insecure && !httpserver.Loopback(o.address):
		return &UsageError{Err: fmt.Errorf("--http %s can be reached by other machines: say who may come in with --http-token-file, or that everybody may with --http-insecure", o.address)}
	}
	return nil
}

func (o *httpOptions) tokens(log zerolog.Logger) (*httpserver.Tokens, error) {
	f, err := os.Open(o.tokenFile)
	if err != nil {
		return nil, &UsageError{Err: fmt.Errorf("--http-token-file: %w", err)}
	}
	defer func() { _ = f.Close() }() // it was only read
	if info, err := f.Stat(); err == nil && info.Mode().Perm()&0o077 != 0 {
		log.Warn().Str("file", o.tokenFile).Msg("other users can read the tokens: chmod 600 keeps them yours")
	}
	tokens, err := httpserver.ReadTokens(f)
	if err != nil {
		return nil, &UsageError{Err: fmt.Errorf("%s: %w", o.tokenFile, err)}
	}
	return tokens, nil
}
