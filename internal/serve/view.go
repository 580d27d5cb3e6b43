package serve

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	httpserver "runnel/rpc/http"
	"runnel/tools/config"
	"runnel/tools/view/page"
)

// liveView is the live view in a browser: the page, and MCP for it alone, with a token that only its address has.
type liveView struct {
	opened func(url string)
	token  string
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

// ServeView serves the live view at an address of this machine instead of a client on stdin and stdout, until ctx ends. opened is told its URL, once
// it can be opened.
func (s *Setup) ServeView(ctx context.Context, address string, opened func(url string)) error {
	s.view = &liveView{opened, rand.Text()}
	s.Options.http = httpOptions{address: address, noStdio: true}
	return s.Serve(ctx)
}

// admits lets in who has the token, as the owner whose tasks this process sees.
func (v *liveView) admits(o *httpserver.Options, log zerolog.Logger) (err error) {
	o.Drain = 0 // what the page waits for, it asks for again
	o.Page = &httpserver.Page{HTML: page.HTML(), Policy: page.Policy()}
	o.Tokens, err = httpserver.NewFresh(log, func() (*httpserver.Tokens, error) { return httpserver.OneToken(v.token, o.Owner), nil })
	return err
}

// listening says where the page is. The token stands in the fragment, which is in no request and so in no log.
func (v *liveView) listening(address string) {
	v.opened(fmt.Sprintf("http://%s/#token=%s", address, v.token))
}
