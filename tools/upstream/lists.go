package upstream

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// lists are the prompts, resources and templates of all servers, by the methods that list them. They are
// replaced, never changed.
type lists map[string][]shownEntry

// shownEntry is an entry of a server's list as clients see it.
type shownEntry struct {
	listEntry
	from *Server
}

// joinLists joins the lists of all servers. If two servers have an entry of the same name, the first one's
// counts. Set.mu is held.
func joinLists(servers []*Server) lists {
	l := lists{}
	owners := map[string]*Server{} // by list and key
	for _, u := range servers {
		if u.catalog == nil {
			continue
		}
		for method, entries := range u.catalog.Lists {
			for _, e := range entries {
				if prefix := u.config.Prefix; prefix != "" && method == promptList {
					e = listEntry{prefix + e.Key, rawjson.WithMember(e.Raw, "name", prefix+e.Key)}
				}
				key := method + " " + e.Key
				switch other := owners[key]; {
				case other == nil || other == u:
					owners[key] = u
					l[method] = append(l[method], shownEntry{e, u})
				case !u.clashes[key]:
					u.clashes[key] = true
					u.log.Warn().Str("list", method).Str("entry", e.Key).Str("other", other.name).
						Msg("an entry of a list of an upstream is left out: another upstream has one of " +
							"its name")
				}
			}
		}
	}
	return l
}

// differs reports whether clients see a difference between two versions of a list.
func (l lists) differs(method string, from lists) bool {
	return !slices.EqualFunc(l[method], from[method],
		func(a, b shownEntry) bool { return bytes.Equal(a.Raw, b.Raw) })
}

// resource returns the server that lists a URI or a template, or whose template fits the URI best; nil if
// there is none.
func (l lists) resource(uri string) *Server {
	if u := cmp.Or(owner(l[resourceList], uri), owner(l[templateList], uri)); u != nil {
		return u
	}
	best, u := -1, (*Server)(nil)
	for _, t := range l[templateList] {
		if score := matchTemplate(t.Key, uri); score > best {
			best, u = score, t.from
		}
	}
	return u
}

// owner returns the server that has an entry of a list, nil if there is none.
func owner(list []shownEntry, key string) *Server {
	for _, e := range list {
		if e.Key == key {
			return e.from
		}
	}
	return nil
}

// entryPage returns a page of a list: mostly the whole list, as for the tools of other servers. A
// cursor holds the number of entries shown so far.
func entryPage(list []shownEntry, cursor string) (page []json.RawMessage, next string) {
	shown, _ := readShown(cursor)
	page = []json.RawMessage{}
	room := mcp.MaxPassed
	for i := min(shown, len(list)); i < len(list); i++ {
		entry := list[i].Raw
		if room -= len(entry); room < 0 && len(page) > 0 {
			return page, shownPrefix + strconv.Itoa(i)
		}
		page = append(page, entry)
	}
	return page, ""
}

// shownPrefix begins the cursors of entryPage.
const shownPrefix = "shown "

// readShown reads such a cursor; ok is false if it is not one.
func readShown(cursor string) (shown int, ok bool) {
	number, ours := strings.CutPrefix(cursor, shownPrefix)
	shown, err := strconv.Atoi(number)
	return shown, ours && err == nil && shown >= 0
}

// matchTemplate returns how well a URI fits a template (RFC 6570): the number of literal bytes that match, or
// -1. It only finds the server for a URI; the server itself checks the values of variables.
func matchTemplate(template, uri string) (score int) {
	parts := strings.Split(template, "{")
	for i, literal := range parts {
		if i > 0 {
			var ends bool
			if _, literal, ends = strings.Cut(literal, "}"); !ends {
				return -1 // it is not a template
			}
		}
		at := strings.Index(uri, literal)
		if i == len(parts)-1 {
			at = len(uri) - len(literal)
		}
		if at < 0 || i == 0 && at > 0 || !strings.HasPrefix(uri[at:], literal) {
			return -1
		}
		score, uri = score+len(literal), uri[at+len(literal):]
	}
	return score
}
