package hosts

import (
	"fmt"
	"strings"
)

// format edits one kind of file. insert and remove may be simple-minded: check looks at what they made.
type format interface {
	// decode returns the values of a text; an empty one has none.
	decode(text []byte) (map[string]any, error)
	// insert says where a piece has to go that holds an entry, and what it is; at can be the end.
	insert(text []byte, key, name string, entry []field) (at int, piece string, err error)
	// remove takes an entry out, and the member that holds the entries, too, if that is empty then and withKey.
	remove(text []byte, key, name string, withKey bool) ([]byte, error)
}

// entries are all of a decoded file.
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

// indented is the whitespace that a line begins with.
func indented(line string) string { return line[:len(line)-len(strings.TrimLeft(line, " \t"))] }
