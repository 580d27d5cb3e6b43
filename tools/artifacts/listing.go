package artifacts

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

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
// listed and not followed. The library is doublestar and not own code: fs.Glob has no **, and gobwas/glob
// matches names, but does not walk.
func list(root *os.Root, patterns []string) (listing, error) {
	all := listing{}
	counted := &countedFS{FS: root.FS()}
	for _, pattern := range patterns {
		err := doublestar.GlobWalk(counted, pattern, func(name string, _ fs.DirEntry) error {
			info, err := root.Lstat(name)
			switch {
			case err != nil || info.IsDir(): // it may have been deleted by now
				return nil
			case len(all) == maxMatches:
				return errTooMany
			}
			all[name] = info
			return nil
		}, doublestar.WithNoFollow())
		if counted.entries > maxEntries { // the library ignores an error of ReadDir
			err = errTooMany
		}
		if err != nil {
			return nil, fmt.Errorf("looking for files by %q: %w", pattern, err)
		}
	}
	return all, nil
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

// countedFS is a file system that shows no more than maxEntries entries.
type countedFS struct {
	fs.FS
	entries int
}

// ReadDir implements fs.ReadDirFS.
func (c *countedFS) ReadDir(name string) ([]fs.DirEntry, error) {
	if c.entries > maxEntries {
		return nil, errTooMany
	}
	list, err := fs.ReadDir(c.FS, name)
	c.entries += len(list)
	shown := list[:0]
	for _, entry := range list {
		if !skipped[entry.Name()] {
			shown = append(shown, entry)
		}
	}
	return shown, err
}

// Stat implements fs.StatFS.
func (c *countedFS) Stat(name string) (fs.FileInfo, error) { return fs.Stat(c.FS, name) }
