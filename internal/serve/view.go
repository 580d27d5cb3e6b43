package serve

import (
	"fmt"

	"github.com/rs/zerolog"

	httpserver "runnel/rpc/http"
	"runnel/tools/view/page"
)

// liveView is the live view in a browser: the page, and MCP for it alone, with a token that only its address has.
type liveView struct {
	opened func(url string)
	token  string
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
