package hosts

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
)

// Servers are the entries of a file's text that start a program, by their names.
func (h *Host) Servers(text []byte) (map[string]Server, error) {
	values, err := h.format.decode(text)
	if err != nil {
		return nil, err
	}
	all, err := entries(values, h.key)
	servers := map[string]Server{}
	for name, entry := range all {
		if s, ok := readServer(entry); ok {
			servers[name] = s
		}
	}
	return servers, err
}

// has reports whether a text has an entry of this name, of whatever kind.
func (h *Host) has(text []byte, name string) (bool, error) {
	values, err := h.format.decode(text)
	if err != nil {
		return false, err
	}
	all, err := entries(values, h.key)
	_, ok := all[name]
	return ok, err
}

// with returns a text with an entry that it did not have, and the piece that was inserted.
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

// without returns a text without an entry that it had. Where the piece that was inserted still stands, just that is taken out.
func (h *Host) without(text []byte, name string, r *record) ([]byte, error) {
	if r.intact(text) {
		after := bytes.Replace(text, []byte(r.Piece), nil, 1)
		if h.check(text, after, name, nil) == nil {
			return after, nil
		}
	}
	after, err := h.format.remove(text, h.key, name, r != nil && r.WithKey)
	if err != nil {
		return nil, err
	}
	return after, h.check(text, after, name, nil)
}

// check refuses an edit that changes anything but one entry: which is to be there afterwards, or if it is nil, to be gone.
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
