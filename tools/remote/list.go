package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

const (
	// maxListEntries and MaxListBytes bound one list of a server: tools, prompts, resources or templates. The
	// rest is cut off.
	maxListEntries = 10_000
	MaxListBytes   = 8 << 20
	// maxListPages stops at a server whose cursors never end, maxListRead at one whose pages hold mostly
	// other data.
	maxListPages = 1000
	maxListRead  = 32 << 20
	// maxCursor is how long a cursor may be, since it is sent back.
	maxCursor = 64 << 10
	// maxUnreadable is how many unreadable entries of a list are reported.
	maxUnreadable = 20
)

// ReadList reads a list of a server, page by page; it is a member of the results of a method. Each entry is
// copied out of its page, so that a page of millions of entries takes no more memory than its line. cut: the
// list has more entries than were taken.
func ReadList(ctx context.Context, client *rpc.Client, method,
	member string) (entries []json.RawMessage, cut bool, err error) {
	params := map[string]any{}
	read, kept := 0, 0
	for range maxListPages {
		raw, err := client.Do(ctx, &rpc.Request{Method: method, Params: params})
		if err != nil {
			return nil, false, fmt.Errorf("%s: %w", method, err)
		}
		list := rawjson.Member(raw, member)
		if len(list) > 0 && list[0] != '[' {
			return nil, false, fmt.Errorf("%s: %s is not an array", method, member)
		}
		for it := rawjson.Over(list); !cut && it.Next(); {
			kept += len(it.Value)
			if cut = len(entries) == maxListEntries || kept > MaxListBytes; !cut {
				// A canonical form, so that an unchanged entry stays equal.
				var compact bytes.Buffer
				_ = json.Compact(&compact, it.Value) // it is valid
				entries = append(entries, compact.Bytes())
			}
		}
		// The last page has no cursor, or one that is not a string.
		next := rawjson.StringMember(raw, "nextCursor")
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

// ListTools reads a server's list of tools: 10,000 tools and 8 MiB at most. If some tools cannot be read, it
// returns the others and an error.
func ListTools(ctx context.Context, client *rpc.Client) (list []mcp.Tool, err error) {
	entries, _, err := ReadList(ctx, client, "tools/list", "tools")
	list, unreadable := ReadTools(entries)
	if err == nil && len(unreadable) > 0 {
		err = fmt.Errorf("tools/list: a tool cannot be read: %.1000s", unreadable[0])
	}
	return list, err
}

// ReadTools reads the entries of a list of tools that ReadList returned. unreadable are the first entries
// that are not tools.
func ReadTools(entries []json.RawMessage) (list []mcp.Tool, unreadable []json.RawMessage) {
	for _, raw := range entries {
		var t mcp.Tool
		if json.Unmarshal(raw, &t) == nil {
			t.Raw = raw
			list = append(list, t)
		} else if len(unreadable) < maxUnreadable {
			unreadable = append(unreadable, raw)
		}
	}
	return list, unreadable
}
