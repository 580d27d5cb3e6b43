package hosts

import (
	"fmt"
	"strings"
)

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
