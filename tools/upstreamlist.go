package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"runnel/rpc"
	"runnel/rpc/mcp"
)

const (
	// maxUpstreamTools is how many tools of a server are taken; a list that never ends is cut.
	maxUpstreamTools = 2000
	// maxUpstreamTool is how large a tool may be, in bytes of JSON: it must fit on a page of the list.
	maxUpstreamTool = listPage
	// maxUnreadable is how many entries of a list are named that are no tools.
	maxUnreadable = 20
	// maxListPages is of a server whose cursors never end, maxListBytes of one whose pages are large.
	maxListPages = 1000
	maxListBytes = 32 << 20
)

// ListTools asks a server for its tools, page by page: 1,000 pages at most, and no further once they have 32 MiB. A tool that
// cannot be read is an error, beside which the others are returned.
func ListTools(ctx context.Context, client *rpc.Client) (list []mcp.Tool, err error) {
	list, unreadable, err := listTools(ctx, client)
	if err == nil && len(unreadable) > 0 {
		err = fmt.Errorf("tools/list: a tool cannot be read: %s", clipText(string(unreadable[0]), maxLogLine))
	}
	return list, err
}

// listTools is ListTools that tells apart what is no tool.
func listTools(ctx context.Context, client *rpc.Client) (list []mcp.Tool, unreadable []json.RawMessage, err error) {
	params := map[string]any{}
	size := 0
	for range maxListPages {
		var page struct {
			Tools      []json.RawMessage `json:"tools"`
			NextCursor string            `json:"nextCursor"`
		}
		raw, err := client.Do(ctx, &rpc.Request{Method: "tools/list", Params: params})
		if err == nil {
			err = json.Unmarshal(raw, &page)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("tools/list: %w", err)
		}
		for _, raw := range page.Tools {
			var t mcp.Tool
			if json.Unmarshal(raw, &t) == nil {
				list = append(list, t)
			} else {
				unreadable = append(unreadable, raw)
			}
		}
		if size += len(raw); page.NextCursor == "" || size > maxListBytes {
			break
		}
		params["cursor"] = page.NextCursor
	}
	return list, unreadable, nil
}

// list reads the server's tools and makes entries of those that are wanted.
func (l *link) list(ctx context.Context) ([]*entry, error) {
	ctx, cancel := context.WithTimeout(ctx, l.u.times.start)
	defer cancel()
	tools, unreadable, err := listTools(ctx, l.client)
	if err != nil {
		return nil, err
	}
	log := l.u.log
	for _, raw := range unreadable[:min(len(unreadable), maxUnreadable)] {
		log.Warn().Str("entry", clipText(string(raw), maxLogLine)).Msg("a tool of an upstream is left out: it cannot be read")
	}
	if len(tools) > maxUpstreamTools {
		log.Warn().Int("tools", len(tools)).Int("limit", maxUpstreamTools).Msg("upstream has too many tools: the first are taken")
		tools = tools[:maxUpstreamTools]
	}
	named := map[string]bool{}
	var entries []*entry
	for _, t := range tools {
		if named[t.Name] = true; !l.u.takes(t.Name) {
			continue
		}
		dropNulls(&t)
		e, err := newEntry(&upstreamTool{u: l.u, spec: t})
		if err == nil {
			err = checkForeign(&t)
		}
		if err != nil {
			log.Warn().Err(err).Str("tool", clipText(t.Name, maxLogLine)).Msg("a tool of an upstream is left out")
			continue
		}
		e.from, e.schema = l.u, nil // the server checks its arguments itself
		entries = append(entries, e)
	}
	for _, name := range append(l.u.config.Allow, l.u.config.Deny...) {
		if !named[name] {
			log.Warn().Str("tool", name).Msg("allow or deny name a tool that the upstream does not have")
		}
	}
	return entries, nil
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
	if n := toolSize(t); n > maxUpstreamTool {
		return fmt.Errorf("it is described in %d bytes: the limit is %d", n, maxUpstreamTool)
	}
	return nil
}
