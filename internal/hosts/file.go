package hosts

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"runnel/internal/system"
)

// maxFile is the largest file that is edited. Claude Code's grows to a few MiB with its history.
const maxFile = 64 << 20

// file is a host's file as it was read.
type file struct {
	path string      // with links resolved
	text []byte      // nil if there is no file
	info fs.FileInfo // nil if there is no file
}

// read reads a file, and follows links. A file that does not exist has a nil text.
func read(path string) (*file, error) {
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(path); err == nil {
			return nil, fmt.Errorf("%s is a link that leads nowhere", path)
		}
		there := system.NearestDir(filepath.Dir(path))
		if real, err = filepath.EvalSymlinks(there); err != nil {
			return nil, err
		}
		below, err := filepath.Rel(there, path)
		return &file{path: filepath.Join(real, below)}, err
	} else if err != nil {
		return nil, err
	}
	info, err := os.Stat(real)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", path)
	case info.Size() > maxFile:
		return nil, fmt.Errorf("%s is larger than %d MiB", path, maxFile>>20)
	}
	text, info, err := system.ReadRegular(real, maxFile)
	return &file{real, text, info}, err
}

// Read returns the text of a host's file, nil if there is none. It refuses anything but a regular file of up
// to maxFile bytes.
func Read(path string) ([]byte, error) {
	f, err := read(path)
	if err != nil {
		return nil, err
	}
	return f.text, nil
}

// replace replaces a file's text in one step, and keeps its mode and owner. It fails if somebody has written
// to the file meanwhile. mode is for a new file.
func (f *file) replace(text []byte, mode fs.FileMode) error {
	if f.text != nil {
		mode = f.info.Mode().Perm()
	}
	if mode&0o200 == 0 { // although the directory would let it be replaced
		return fmt.Errorf("%s is read-only: make it writable, or add by hand what --dry-run shows", f.path)
	}
	dir := filepath.Dir(f.path)
	dirMode := fs.FileMode(0o755)
	if mode&0o077 == 0 {
		dirMode = 0o700
	}
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return err
	}
	part, err := os.CreateTemp(dir, ".runnel-*")
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("you may not write in %s: make it writable, or add by hand what --dry-run shows",
			dir)
	} else if err != nil {
		return err
	}
	_, err = part.Write(text)
	if f.info != nil && system.KeepOwner(part, f.info) != nil {
		err = errors.Join(err, fmt.Errorf("%s belongs to another user: edit it as that user", f.path))
	}
	err = errors.Join(err, part.Chmod(mode), part.Sync(), part.Close())
	if err != nil {
		return errors.Join(err, os.Remove(part.Name()))
	}
	return f.put(part.Name(), text)
}

// put gives a new file the name of this one, which has text, unless another program has written this one
// since it was read. No write of another program is lost, whenever it comes: what has stood under the name is
// looked at after the exchange, and is put back if it is not what was read. The file part is removed.
func (f *file) put(part string, text []byte) error {
	if f.text == nil {
		if err := os.Link(part, f.path); err == nil || errors.Is(err, fs.ErrExist) {
			return errors.Join(f.meanwhile(err != nil), os.Remove(part))
		}
	} else if system.Exchange(part, f.path) == nil {
		expected, placed := f.text, text
		for {
			found, _, err := system.ReadRegular(part, maxFile)
			if err == nil && bytes.Equal(found, expected) {
				return errors.Join(f.meanwhile(!bytes.Equal(placed, text)), os.Remove(part))
			}
			expected, placed = placed, found // found is newer than all that was there
			if err := system.Exchange(part, f.path); err != nil {
				return fmt.Errorf("%s was written by another program just now, and that is in %s: %w",
					f.path, part, err)
			}
		}
	}
	err := f.unchanged() // where files cannot be exchanged, little time is left after this look
	if err == nil {
		err = os.Rename(part, f.path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(part))
	}
	return nil
}

// remove removes a file, and then empty directories below one that stays. As in put, what is removed is
// looked at.
func (f *file) remove(above string) error {
	if err := f.unchanged(); err != nil {
		return err
	}
	aside, err := os.CreateTemp(filepath.Dir(f.path), ".runnel-*")
	if err != nil {
		return err
	}
	err = errors.Join(aside.Close(), os.Rename(f.path, aside.Name()))
	if found, _, readErr := system.ReadRegular(aside.Name(), maxFile); err == nil &&
		(readErr != nil || !bytes.Equal(found, f.text)) {
		err = f.meanwhile(true)
		// if there is one, it is newer.
		if back := os.Link(aside.Name(), f.path); back != nil && !errors.Is(back, fs.ErrExist) {
			return errors.Join(err, os.Rename(aside.Name(), f.path))
		}
	}
	if err := errors.Join(err, os.Remove(aside.Name())); err != nil {
		return err
	}
	for dir := filepath.Dir(f.path); strings.HasPrefix(dir, above+string(filepath.Separator)) &&
		above != ""; dir = filepath.Dir(dir) {
		if os.Remove(dir) != nil { // somebody else uses it
			break
		}
	}
	return nil
}

// unchanged returns an error if the file has changed since it was read.
func (f *file) unchanged() error {
	now, _, err := system.ReadRegular(f.path, maxFile)
	if errors.Is(err, fs.ErrNotExist) && f.text == nil {
		return nil
	}
	if err != nil || f.text == nil || !bytes.Equal(now, f.text) {
		return f.meanwhile(true)
	}
	return nil
}

// errChanged means that another program has written a file since its change was planned.
var errChanged = errors.New("was written by another program just now: try again")

func (f *file) meanwhile(changed bool) error {
	if !changed {
		return nil
	}
	return fmt.Errorf("%s %w", f.path, errChanged)
}
