package upstream

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/rs/zerolog"

	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tools"
	"runnel/tools/remote"
	"runnel/tools/text"
)

const (
	// maxListEntry is how large an entry may be, in bytes of JSON: it must fit on a page of runnel's own list.
	maxListEntry = mcp.MaxListPage
)

// wanted are the tools of a list that are wanted and can be served. told: they are as the server has just told them, and what is wrong
// with them is logged.
func (u *Server) wanted(list []json.RawMessage, told bool) (wanted []tools.Tool) {
	specs, unreadable := remote.ReadTools(list)
	log := u.log
	if !told {
		log = zerolog.Nop()
	}
	for _, raw := range unreadable {
		log.Warn().Str("entry", text.Clip(string(raw), maxLogLine)).Msg("a tool of an upstream is left out: it cannot be read")
	}
	named := map[string]bool{}
	for _, spec := range specs {
		if named[spec.Name] = true; !u.takes(spec.Name) {
			continue
		}
		dropNulls(&spec)
		t := &tool{u: u, spec: spec}
		err := tools.CheckName(t.Describe().Name)
		if err == nil {
			err = checkForeign(&spec)
		}
		if err != nil {
			log.Warn().Err(err).Str("tool", text.Clip(spec.Name, maxLogLine)).Msg("a tool of an upstream is left out")
			continue
		}
		wanted = append(wanted, t)
	}
	for _, name := range slices.Concat(u.config.Allow, u.config.Deny) {
		if !named[name] {
			log.Warn().Str("tool", name).Msg("allow or deny name a tool that the upstream does not have")
		}
	}
	return wanted
}

// dropNulls takes the optional members for absent that are null: no schema allows that, but servers write it.
func dropNulls(t *mcp.Tool) {
	for _, member := range []*json.RawMessage{&t.OutputSchema, &t.Icons, &t.Meta} {
		if string(*member) == "null" {
			*member = nil
		}
	}
}

// checkForeign refuses a tool that would spoil the list for clients.
func checkForeign(t *mcp.Tool) error {
	if rawjson.StringMember(t.InputSchema, "type") != "object" {
		return errors.New("its input schema is not that of an object")
	}
	if t.OutputSchema != nil && !rawjson.IsObject(t.OutputSchema) || t.Meta != nil && !rawjson.IsObject(t.Meta) || t.Icons != nil && t.Icons[0] != '[' {
		return errors.New("its output schema or _meta is no object, or its icons are no array")
	}
	if n := len(rawjson.Encode(t)); n > maxListEntry {
		return fmt.Errorf("it is described in %d bytes: the limit is %d", n, maxListEntry)
	}
	return nil
}
