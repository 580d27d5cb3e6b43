package artifacts

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// Bounds of one look at a directory. A pattern with ** may lead into anything.
const (
	maxEntries = 200_000 // of all directories that are read
	maxMatches = 20_000
)

// skipped are directories that * and ** do not show: no command makes its report there, and they may have
// more files than all others.
var skipped = map[string]bool{".git": true, "node_modules": true}

var errTooMany = errors.New("too many files")

// listing is what matches the patterns, by its name with slashes.
type listing map[string]fs.FileInfo

// list returns what matches some of the patterns below a directory, but no directories. Symbolic links are
// listed and not followed. Each directory into which a pattern may lead is read once.
//
// The library is doublestar and not own code: fs.Glob has no **, and gobwas/glob knows no directories. Its
// own walk reads a directory for each pattern, and as a whole.
func list(root *os.Root, patterns []string) (listing, error) {
	l := lister{root: root, patterns: patterns, found: listing{}, left: maxEntries}
	if err := l.read("."); err != nil {
		return nil, fmt.Errorf("looking for files: %w", err)
	}
	return l.found, nil
}

// lister looks at directories.
type lister struct {
	root     *os.Root
	patterns []string
	found    listing
	left     int // entries that may still be read
}

// read reads a directory, and those below it. One that cannot be read has nothing.
func (l *lister) read(dir string) error {
	d, err := l.root.Open(dir)
	if err != nil {
		return nil
	}
	entries, _ := d.ReadDir(l.left + 1)
	_ = d.Close()
	if l.left -= len(entries); l.left < 0 {
		return errTooMany
	}
	for _, entry := range entries {
		name := path.Join(dir, entry.Name())
		switch {
		case skipped[entry.Name()] && !slices.ContainsFunc(l.patterns,
			func(p string) bool { return hasPart(p, entry.Name()) }):
		case entry.IsDir():
			if slices.ContainsFunc(l.patterns, func(p string) bool { return leadsInto(p, name) }) {
				err = l.read(name)
			}
		case slices.ContainsFunc(l.patterns,
			func(p string) bool { return doublestar.MatchUnvalidated(p, name) }):
			err = l.add(name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// add lists what matches, unless it has been deleted by now.
func (l *lister) add(name string) error {
	info, err := l.root.Lstat(name)
	if err != nil || info.IsDir() {
		return nil
	}
	if len(l.found) == maxMatches {
		return errTooMany
	}
	l.found[name] = info
	return nil
}

// hasPart reports whether a pattern names a directory.
func hasPart(pattern, name string) bool { return slices.Contains(strings.Split(pattern, "/"), name) }

// leadsInto reports whether a pattern may match something below a directory.
func leadsInto(pattern, dir string) bool {
	if open := strings.IndexByte(pattern, '{'); open >= 0 && strings.IndexByte(pattern[open:], '/') >= 0 {
		return true // its alternatives may have different numbers of directories
	}
	parts := strings.Split(pattern, "/")
	for i, name := range strings.Split(dir, "/") {
		switch {
		case i == len(parts)-1:
			return parts[i] == "**"
		case parts[i] == "**":
			return true
		case !doublestar.MatchUnvalidated(parts[i], name):
			return false
		}
	}
	return true
}

// isChanged reports whether a file is not in the listing, or has another size, time or inode there.
func (l listing) isChanged(name string, now fs.FileInfo) bool {
	before, was := l[name]
	return !was || !isSame(before, now)
}

// isSame reports whether two looks saw the same content, as far as the directory tells.
func isSame(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && a.Mode() == b.Mode()
}
