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

// lists are the prompts, resources and templates of all servers. They are replaced, never changed.
type lists struct {
	prompts, resources, templates []shownEntry
}

// shownEntry is an entry of a list of a server's as clients see it.
type shownEntry struct {
	listEntry
	from *Server
}

// joinLists makes the lists of all servers, of which the first has a name. The lock of their Set is held.
func joinLists(servers []*Server) (l lists) {
	owners := map[string]*Server{} // by kind and key
	join := func(list *[]shownEntry, u *Server, kind string, e listEntry) {
		key := kind + " " + e.Key
		other := owners[key]
		switch {
		case other == nil || other == u:
			owners[key] = u
			*list = append(*list, shownEntry{e, u})
		case !u.clashes[key]:
			u.clashes[key] = true
			u.log.Warn().Str(kind, e.Key).Str("other", other.name).Msg("an entry of a list of an upstream is left out: another upstream has one of its name")
		}
	}
	for _, u := range servers {
		if u.catalog == nil {
			continue
		}
		for _, p := range u.catalog.Prompts {
			if prefix := u.config.Prefix; prefix != "" {
				p = listEntry{prefix + p.Key, rawjson.WithMember(p.Raw, "name", prefix+p.Key)}
			}
			join(&l.prompts, u, "prompt", p)
		}
		for _, e := range u.catalog.Resources {
			join(&l.resources, u, "resource", e)
		}
		for _, e := range u.catalog.Templates {
			join(&l.templates, u, "template", e)
		}
	}
	return l
}

// changes reports which lists differ for clients from what they were.
func (l *lists) changes(from *lists) (prompts, resources bool) {
	same := func(a, b []shownEntry) bool {
		return slices.EqualFunc(a, b, func(a, b shownEntry) bool { return bytes.Equal(a.Raw, b.Raw) })
	}
	return !same(l.prompts, from.prompts), !same(l.resources, from.resources) || !same(l.templates, from.templates)
}

// prompt is the server that has a prompt, nil if there is none.
func (l *lists) prompt(name string) *Server { return owner(l.prompts, name) }

// resource is the server that lists a URI or a template, or whose template the URI fits best; nil if there is none.
func (l *lists) resource(uri string) *Server {
	if u := owner(l.resources, uri); u != nil {
		return u
	}
	if u := owner(l.templates, uri); u != nil {
		return u
	}
	best, u := -1, (*Server)(nil)
	for _, t := range l.templates {
		if score := matchTemplate(t.Key, uri); score > best {
			best, u = score, t.from
		}
	}
	return u
}

func owner(list []shownEntry, key string) *Server {
	for _, e := range list {
		if e.Key == key {
			return e.from
		}
	}
	return nil
}

// entryPage is a page of a list, as a version knows its entries. A cursor says how many entries have been shown.
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

// readShown reads such a cursor; ok is false if it is not one.
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
func matchTemplate(template, uri string) (score int) {
	literal, rest, more := strings.Cut(template, "{")
	if !strings.HasPrefix(uri, literal) || !more && uri != literal {
		return -1
	}
	for score, uri = len(literal), uri[len(literal):]; more; {
		_, rest, more = strings.Cut(rest, "}")
		if !more {
			return -1 // it is not a template
		}
		literal, rest, more = strings.Cut(rest, "{")
		score += len(literal)
		at := strings.Index(uri, literal)
		if !more {
			at = len(uri) - len(literal)
		}
		if at < 0 || !strings.HasPrefix(uri[at:], literal) {
			return -1
		}
		uri = uri[at+len(literal):]
	}
	return score
}
