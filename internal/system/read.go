package system

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// ReadRegular reads a file that others may have put there. It refuses anything but a regular file of at most
// limit bytes, without waiting: opening a pipe would wait for its writer, and /dev/zero never ends. A file
// that is empty has a text that is empty, not nil.
func ReadRegular(name string, limit int64) (text []byte, info fs.FileInfo, err error) {
	f, err := os.OpenFile(name, os.O_RDONLY|NoWait, 0)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	if info, err = f.Stat(); err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, info, &fs.PathError{Op: "read", Path: name, Err: errIrregular}
	}
	text, err = readUpTo(f, name, limit)
	return text, info, err
}

// ReadNamed reads a file that the user has named by hand, which may be a pipe, such as <(pass token): it
// waits until the pipe's writer closes it. It refuses more than limit bytes.
func ReadNamed(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	return readUpTo(f, name, limit)
}

var errIrregular = errors.New("it is not a regular file")

func readUpTo(f io.Reader, name string, limit int64) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(text)) > limit:
		return nil, &fs.PathError{Op: "read", Path: name, Err: fmt.Errorf("it has more than %d bytes", limit)}
	}
	return text, nil
}

// Dir is a directory as a file system, like that of os.DirFS, whose files can be opened without waiting.
// Whether one is a regular file must be asked after it was opened.
type Dir string

// Open implements fs.FS.
func (d Dir) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	return os.OpenFile(filepath.Join(string(d), filepath.FromSlash(name)), os.O_RDONLY|NoWait, 0)
}

// NearestDir is a directory, or the nearest above it that exists: it says whether the directory could be made
// and written.
func NearestDir(dir string) string {
	for {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}
