package serve

import (
	"fmt"

	"github.com/rs/zerolog"

	httpserver "runnel/rpc/http"
	"runnel/tools/config"
	"runnel/tools/view/page"
)

// liveView is the live view in a browser: the page, and an MCP server for it alone, with a token that only
// the page's address holds.
type liveView struct {
	address config.Address
	opened  func(url string)
	token   string
}

// admits sets up the HTTP server for the view: it serves the page, and admits whoever has the token as the
// config's owner.
func (v *liveView) admits(o *httpserver.Options, log zerolog.Logger) (err error) {
	o.Drain = 0 // the page repeats a request that it waits for
	o.Page = &httpserver.Page{HTML: page.HTML(), Policy: page.Policy()}
	o.Tokens, err = httpserver.NewFresh(log,
		func() (*httpserver.Tokens, error) { return httpserver.OneToken(v.token, o.Owner), nil })
	return err
}

// listening reports the address of the page. The token is in the fragment, which no request and so no log
// contains.
func (v *liveView) listening(address string) {
	v.opened(fmt.Sprintf("http://%s/#token=%s", address, v.token))
}
