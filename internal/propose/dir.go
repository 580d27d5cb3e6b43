package propose

import "io/fs"

// maxManifest is the largest file that is read.
const maxManifest = 1 << 20

// dir is the project's directory.
type dir struct{ fs.FS }

// read returns the first of some files that exists, "" if none does.
func (d dir) read(names ...string) (name, text string) {
	for _, name := range names {
		info, err := fs.Stat(d, name)
		if err != nil || !info.Mode().IsRegular() || info.Size() > maxManifest {
			continue
		}
		if b, err := fs.ReadFile(d, name); err == nil {
			return name, string(b)
		}
	}
	return "", ""
}

// has reports whether one of some files or directories exists.
func (d dir) has(names ...string) bool {
	for _, name := range names {
		if _, err := fs.Stat(d, name); err == nil {
			return true
		}
	}
	return false
}
