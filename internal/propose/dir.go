package propose

import "io/fs"

// maxManifest is the largest file that is read.
const maxManifest = 1 << 20

// dir is the directory that is looked at.
type dir struct{ fs.FS }

// read returns the first of some files that there is, "" if none.
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

// has reports whether there is one of some files or directories.
func (d dir) has(names ...string) bool {
	for _, name := range names {
		if _, err := fs.Stat(d, name); err == nil {
			return true
		}
	}
	return false
}
