package propose

import (
	"io"
	"io/fs"
)

// maxManifest is the largest file that is read.
const maxManifest = 1 << 20

// dir is the project's directory.
type dir struct{ fs.FS }

// read returns the first of some files that exists, "" if none does.
func (d dir) read(names ...string) (name, text string) {
	for _, name := range names {
		if text, ok := d.readOne(name); ok {
			return name, text
		}
	}
	return "", ""
}

// readOne reads a regular file of at most maxManifest bytes. It asks the open file what it is: its name may
// belong to another one by then.
func (d dir) readOne(name string) (text string, ok bool) {
	f, err := d.Open(name)
	if err != nil {
		return "", false
	}
	defer func() { _ = f.Close() }() // it was only read
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", false
	}
	b, err := io.ReadAll(io.LimitReader(f, maxManifest+1))
	return string(b), err == nil && len(b) <= maxManifest
}

// has reports whether one of some files or directories exists.
func (d dir) has(names ...string) bool {
	for _, name := range names {
		if f, err := d.Open(name); err == nil {
			_ = f.Close() // nothing was written
			return true
		}
	}
	return false
}
