package hosts

import (
	"bytes"
	"slices"
)

// others returns the records of the other entries that Install put into a file and that are still there.
func (h *Host) others(f *file, name string, records Records) ([]*record, error) {
	there, err := h.Servers(f.text)
	return slices.DeleteFunc(records.of(f.path), func(r *record) bool {
		_, ok := there[r.Name]
		return !ok || r.Name == name
	}), err
}

// withoutAmong removes an entry if others were inserted later, perhaps within its piece: it removes them all,
// and inserts the others again as if this one had never been there. So removing the last entry restores the
// file. anew are the new records of the others, nil if somebody has changed one of the entries.
func (h *Host) withoutAmong(text []byte, r *record,
	others []*record) (after []byte, anew []*record, err error) {
	servers, err := h.Servers(text)
	if err != nil {
		return nil, nil, err
	}
	for rest := append(slices.Clone(others), r); len(rest) > 0; {
		n := slices.IndexFunc(rest, func(r *record) bool { return r.intact(text) })
		if n < 0 {
			return nil, nil, nil
		}
		text = bytes.Replace(text, []byte(rest[n].Piece), nil, 1)
		rest = slices.Delete(rest, n, n+1)
	}
	for n, other := range others {
		values, err := h.format.decode(text)
		if err != nil {
			return nil, nil, err
		}
		_, hasKey := values[h.key]
		again := &record{Host: other.Host, Path: other.Path, Name: other.Name, WithKey: !hasKey}
		if n == 0 {
			again.Created, again.Above = r.Created, r.Above
		}
		if text, again.Piece, err = h.with(text, other.Name, servers[other.Name]); err != nil {
			return nil, nil, err
		}
		again.Entry = other.Entry
		anew = append(anew, again)
	}
	return text, anew, nil
}
