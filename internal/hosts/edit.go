package hosts

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
)

// Servers returns the entries of a file's text that start a program, by name.
func (h *Host) Servers(text []byte) (map[string]Server, error) {
	all, err := h.entries(text)
	servers := map[string]Server{}
	for name, entry := range all {
		if s, ok := readServer(entry); ok {
			servers[name] = s
		}
	}
	return servers, err
}

// entries returns all entries of a text, by name.
func (h *Host) entries(text []byte) (map[string]any, error) {
	values, err := h.format.decode(text)
	if err != nil {
		return nil, err
	}
	return entries(values, h.key)
}

// says returns an entry in a canonical form, without its layout; "" if it is not there.
func (h *Host) says(text []byte, name string) string {
	if all, _ := h.entries(text); all[name] != nil {
		return quote(all[name])
	}
	return ""
}

// isOurs reports whether an entry is as Install wrote it, so that removing it loses nobody else's work. If a
// host has changed the layout of plain JSON, which has no comments to lose, it is enough that the values are
// the same.
func (h *Host) isOurs(text []byte, r *record) bool {
	return r.intact(text) || r != nil && r.Entry != "" && h.format == jsonText{} &&
		h.says(text, r.Name) == r.Entry
}

// with adds an entry to a text, and returns the piece that it inserted.
func (h *Host) with(text []byte, name string, s Server) (after []byte, piece string, err error) {
	fields := h.shape(s)
	for n, f := range fields {
		if f.name == "name" { // Goose's
			fields[n].value = name
		}
	}
	at, piece, err := h.format.insert(text, h.key, name, fields)
	if err != nil {
		return nil, "", err
	}
	if bytes.Contains(text, []byte("\r\n")) {
		piece = strings.ReplaceAll(piece, "\n", "\r\n")
	}
	after = bytes.Join([][]byte{text[:at], []byte(piece), text[at:]}, nil)
	return after, piece, h.check(text, after, name, fields)
}

// without removes an entry from a text: only the inserted piece, if that is still there unchanged.
func (h *Host) without(text []byte, name string, r *record) ([]byte, error) {
	if after := h.withoutPiece(text, name, r); after != nil {
		return after, nil
	}
	after, err := h.format.remove(text, h.key, name, r != nil && r.WithKey)
	if err != nil {
		return nil, err
	}
	return after, h.check(text, after, name, nil)
}

// withoutPiece removes only the inserted piece. It returns nil if the piece is no longer there, or if more
// has to be removed.
func (h *Host) withoutPiece(text []byte, name string, r *record) []byte {
	if !r.intact(text) {
		return nil
	}
	after := append([]byte{}, bytes.Replace(text, []byte(r.Piece), nil, 1)...)
	if h.check(text, after, name, nil) != nil {
		return nil
	}
	values, _ := h.format.decode(after) // it was checked
	all, _ := entries(values, h.key)
	if _, hasKey := values[h.key]; r.WithKey && hasKey && len(all) == 0 {
		return nil
	}
	return after
}

// check refuses an edit that changes anything but one entry. Afterwards the entry must be there or, if it is
// nil, be gone.
func (h *Host) check(before, after []byte, name string, entry []field) error {
	const advice = "nothing was changed: edit the file yourself"
	was, err := h.format.decode(before)
	if err != nil {
		return err
	}
	is, err := h.format.decode(after)
	if err != nil {
		return fmt.Errorf("the way it is written leaves no room for a simple edit (%w); %s", err, advice)
	}
	all, err := entries(is, h.key)
	if err != nil {
		return err
	}
	found, ok := all[name]
	if ok != (entry != nil) {
		return fmt.Errorf("the way it is written leaves no room for a simple edit; %s", advice)
	}
	if ok {
		want := map[string]any{}
		for _, f := range entry {
			want[f.name] = f.value
		}
		if quote(found) != quote(want) {
			return fmt.Errorf("the entry would not read as it should; %s", advice)
		}
	}
	for _, values := range []map[string]any{was, is} {
		all, err := entries(values, h.key)
		if err != nil {
			return err
		}
		delete(all, name)
		if len(all) == 0 {
			delete(values, h.key)
		}
	}
	if !reflect.DeepEqual(was, is) {
		return fmt.Errorf("an edit would change something else in it; %s", advice)
	}
	return nil
}

// format edits one kind of file. insert and remove may be simple-minded: check verifies their results.
type format interface {
	// decode returns the values of a text, none for an empty one.
	decode(text []byte) (map[string]any, error)
	// insert returns the piece of text that adds an entry, and the place where it goes, which may be the end.
	insert(text []byte, key, name string, entry []field) (at int, piece string, err error)
	// remove removes an entry and, if withKey and no other entry is left, the member that holds the entries.
	remove(text []byte, key, name string, withKey bool) ([]byte, error)
}

// entries returns all entries of a decoded file.
func entries(values map[string]any, key string) (map[string]any, error) {
	switch v := values[key].(type) {
	case nil:
		return nil, nil
	case map[string]any:
		return v, nil
	default:
		return nil, fmt.Errorf("%q does not hold a list of servers by their names", key)
	}
}

// indented returns the whitespace at the beginning of a line.
func indented(line string) string { return line[:len(line)-len(strings.TrimLeft(line, " \t"))] }
