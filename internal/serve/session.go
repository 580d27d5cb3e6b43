package serve

import (
	"cmp"
	"encoding/json"
	"os"
	"sync"
	"time"

	"runnel/internal/clients"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks"
	"runnel/tasks/sqlite"
	"runnel/tools/view"
)

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
