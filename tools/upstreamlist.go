package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/rs/zerolog"

	"runnel/rpc"
	"runnel/rpc/mcp"
)

const (
	// maxListEntries and maxListBytes bound what is taken of one list of a server: tools, prompts, resources or templates. The rest
	// is cut.
	maxListEntries = 10_000
	maxListBytes   = 8 << 20
	// maxListPages is of a server whose cursors never end, maxListRead of one whose pages hold little that is a list.
	maxListPages = 1000
	maxListRead  = 32 << 20
	// maxCursor is how long a cursor may be: it is sent back.
	maxCursor = 64 << 10
	// maxListEntry is how large an entry may be, in bytes of JSON: it must fit on a page of runnel's own list.
	maxListEntry = listPage
	// maxUnreadable is how many entries of a list are named that are no tools.
	maxUnreadable = 20
)

// readList reads a list of a server's, which is a member of the results of a method, page by page. An entry is copied out of its page when it
// is taken: a page of millions of entries costs no more memory than its line. cut: the list has more than is taken.
func readList(ctx context.Context, client *rpc.Client, method, member string) (entries []json.RawMessage, cut bool, err error) {
	params := map[string]any{}
	read, kept := 0, 0
	for range maxListPages {
		raw, err := client.Do(ctx, &rpc.Request{Method: method, Params: params})
		if err != nil {
			return nil, false, fmt.Errorf("%s: %w", method, err)
		}
		var list, cursor []byte
		if rpc.IsObject(raw) {
			rpc.EachMember(raw, func(name, value []byte) bool {
				switch string(name) {
				case member:
					list = value
				case "nextCursor":
					cursor = value
				}
				return true
			})
		}
		if len(list) > 0 && list[0] != '[' {
			return nil, false, fmt.Errorf("%s: %s is no array", method, member)
		}
		if len(list) > 0 {
			rpc.EachElement(list, func(entry []byte) bool {
				kept += len(entry)
				cut = len(entries) == maxListEntries || kept > maxListBytes
				if !cut {
					var compact bytes.Buffer          // as it is kept, so that what has not changed is the same
					_ = json.Compact(&compact, entry) // it is valid
					entries = append(entries, compact.Bytes())
				}
				return !cut
			})
		}
		var next string
		_ = json.Unmarshal(cursor, &next) // the end is a missing cursor, or one that is not a string
		if cut || next == "" {
			return entries, cut, nil
		}
		if read += len(raw); read > maxListRead || len(next) > maxCursor {
			break
		}
		params["cursor"] = next
	}
	return entries, true, nil
}

// ListTools asks a server for its tools, page by page: 10,000 tools and 8 MiB at most. A tool that cannot be read is an error, beside
// which the others are returned.
func ListTools(ctx context.Context, client *rpc.Client) (list []mcp.Tool, err error) {
	entries, _, err := readList(ctx, client, "tools/list", "tools")
	list, unreadable := readTools(entries)
	if err == nil && len(unreadable) > 0 {
		err = fmt.Errorf("tools/list: a tool cannot be read: %s", clipText(string(unreadable[0]), maxLogLine))
	}
	return list, err
}

// readTools reads the entries of a list of tools, and tells apart the first of those that are no tools.
func readTools(entries []json.RawMessage) (list []mcp.Tool, unreadable []json.RawMessage) {
	for _, raw := range entries {
		var t mcp.Tool
		if json.Unmarshal(raw, &t) == nil {
			list = append(list, t)
		} else if len(unreadable) < maxUnreadable {
			unreadable = append(unreadable, raw)
		}
	}
	return list, unreadable
}

// toolEntries makes entries of the tools that are wanted. told: they are as the server has just told them, and what is wrong with
// them is logged.
func (u *Upstream) toolEntries(list []json.RawMessage, told bool) []*entry {
	tools, unreadable := readTools(list)
	log := u.log
	if !told {
		log = zerolog.Nop()
	}
	for _, raw := range unreadable {
		log.Warn().Str("entry", clipText(string(raw), maxLogLine)).Msg("a tool of an upstream is left out: it cannot be read")
	}
	named := map[string]bool{}
	var entries []*entry
	for _, t := range tools {
		if named[t.Name] = true; !u.takes(t.Name) {
			continue
		}
		dropNulls(&t)
		e, err := newEntry(&upstreamTool{u: u, spec: t})
		if err == nil {
			err = checkForeign(&t)
		}
		if err != nil {
			log.Warn().Err(err).Str("tool", clipText(t.Name, maxLogLine)).Msg("a tool of an upstream is left out")
			continue
		}
		e.from, e.schema = u, nil // the server checks its arguments itself
		entries = append(entries, e)
	}
	for _, name := range slices.Concat(u.config.Allow, u.config.Deny) {
		if !named[name] {
			log.Warn().Str("tool", name).Msg("allow or deny name a tool that the upstream does not have")
		}
	}
	return entries
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
	if !isOfObject(t.InputSchema) {
		return errors.New("its input schema is not that of an object")
	}
	if t.OutputSchema != nil && !rpc.IsObject(t.OutputSchema) || t.Meta != nil && !rpc.IsObject(t.Meta) || t.Icons != nil && t.Icons[0] != '[' {
		return errors.New("its output schema or _meta is no object, or its icons are no array")
	}
	if n := toolSize(t); n > maxListEntry {
		return fmt.Errorf("it is described in %d bytes: the limit is %d", n, maxListEntry)
	}
	return nil
}
