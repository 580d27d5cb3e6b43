package upstream

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

// lists are the prompts, resources and templates of all upstreams. They are replaced, never changed.
type lists struct {
	prompts, resources, templates []shownEntry
}

// shownEntry is an entry of a list of an upstream's as clients see it.
type shownEntry struct {
	listEntry
	from *Server
}

// joinLists makes the lists of all upstreams. s.mu is held.
func (s *Set) joinLists() {
	s.lists = lists{}
	owners := map[string]*Server{} // by kind and key
	join := func(list []shownEntry, u *Server, kind string, e listEntry) []shownEntry {
		key := kind + " " + e.Key
		if other := owners[key]; other != nil && other != u {
			if !u.clashes[key] {
				u.clashes[key] = true
				u.log.Warn().Str(kind, e.Key).Str("other", other.name).Msg("an entry of a list of an upstream is left out: another upstream has one of its name")
			}
			return list
		}
		owners[key] = u
		return append(list, shownEntry{e, u})
	}
	for _, u := range s.servers {
		if u.catalog == nil {
			continue
		}
		for _, p := range u.catalog.Prompts {
			if prefix := u.config.Prefix; prefix != "" {
				p = listEntry{prefix + p.Key, rawjson.WithMember(p.Raw, "name", prefix+p.Key)}
			}
			s.lists.prompts = join(s.lists.prompts, u, "prompt", p)
		}
		for _, e := range u.catalog.Resources {
			s.lists.resources = join(s.lists.resources, u, "resource", e)
		}
		for _, e := range u.catalog.Templates {
			s.lists.templates = join(s.lists.templates, u, "template", e)
		}
	}
}

// changes reports which lists differ for clients from what they were.
func (l *lists) changes(from *lists) (prompts, resources bool) {
	same := func(a, b []shownEntry) bool {
		return slices.EqualFunc(a, b, func(a, b shownEntry) bool { return bytes.Equal(a.Raw, b.Raw) })
	}
	return !same(l.prompts, from.prompts), !same(l.resources, from.resources) || !same(l.templates, from.templates)
}

// entryPage is a page of a list of the upstreams', as a version knows its entries. A cursor says how many entries have been shown.
func entryPage(v *mcp.Version, list []shownEntry, cursor string) (page []json.RawMessage, next string) {
	shown, _ := readShown(cursor)
	page = []json.RawMessage{}
	room := mcp.MaxListPage
	for i := min(shown, len(list)); i < len(list); i++ {
		entry := dressEntry(v, list[i].Raw)
		if room -= len(entry); room < 0 && (len(page) > 0 || room < -maxListEntry) {
			return page, base64.RawURLEncoding.EncodeToString(strconv.AppendInt([]byte(shownPrefix), int64(i), 10))
		}
		page = append(page, entry)
	}
	return page, ""
}

// shownPrefix begins the cursors of entryPage.
const shownPrefix = "shown "

// readShown reads such a cursor; ok is false if it is none.
func readShown(cursor string) (shown int, ok bool) {
	decoded, _ := base64.RawURLEncoding.DecodeString(cursor)
	number, ours := strings.CutPrefix(string(decoded), shownPrefix)
	shown, err := strconv.Atoi(number)
	return shown, ours && err == nil && shown >= 0
}

// dressEntry takes out of an entry what a version does not know.
func dressEntry(v *mcp.Version, entry json.RawMessage) json.RawMessage {
	for member, known := range map[string]bool{"title": v.Titles, "icons": v.Icons, "_meta": v.ContentMeta} {
		if !known && rawjson.Member(entry, member) != nil {
			entry = rawjson.WithMember(entry, member, nil)
		}
	}
	return entry
}

// matchTemplate reports how well a URI fits a template (RFC 6570): how many bytes of the template stand in it as they are, or -1. It is
// asked only where a URI belongs, so that what may be in a variable is left to its server.
func matchTemplate(template, uri string) int {
	literal, rest, found := strings.Cut(template, "{")
	if !strings.HasPrefix(uri, literal) {
		return -1
	}
	score := len(literal)
	for uri = uri[len(literal):]; found; {
		if _, rest, found = strings.Cut(rest, "}"); !found {
			return -1 // it is no template
		}
		literal, rest, found = strings.Cut(rest, "{")
		score += len(literal)
		if !found { // the last one
			if !strings.HasSuffix(uri, literal) {
				return -1
			}
			return score
		}
		at := strings.Index(uri, literal)
		if at < 0 {
			return -1
		}
		uri = uri[at+len(literal):]
	}
	if uri != "" {
		return -1
	}
	return score
}
