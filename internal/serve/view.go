package serve

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"runnel/internal/clients"
	httpserver "runnel/rpc/http"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
	"runnel/tasks/sqlite"
	"runnel/tools/config"
	"runnel/tools/view"
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

// describe returns what makes the state say which host has started this process, once the host lists the
// tools; nil if no host has, or the state is not a directory: others would learn paths of this machine.
func (s *Setup) describe(store tasks.State) func(client mcp.Implementation) {
	state, ok := store.(*sqlite.State)
	if !ok || !s.session {
		return nil
	}
	since := time.Now()
	var once sync.Once
	return func(client mcp.Implementation) {
		once.Do(func() {
			dir, _ := os.Getwd()
			host := cmp.Or(clients.Find(client.Name, client.Version).Title, client.Title, client.Name)
			state.Describe(string(rawjson.Encode(view.Session{Host: host, Dir: dir, Since: since})))
		})
	}
}

// hosts returns what finds the hosts for the live view; nil = it shows none.
func (s *Setup) hosts(store tasks.State) func() view.Hosts {
	if s.Installed == nil {
		return nil
	}
	return func() view.Hosts {
		hosts := view.Hosts{Installed: s.Installed()}
		if state, ok := store.(*sqlite.State); ok {
			for _, text := range state.Described() {
				var session view.Session
				if json.Unmarshal([]byte(text), &session) == nil {
					hosts.Sessions = append(hosts.Sessions, session)
				}
			}
		}
		return hosts
	}
}
