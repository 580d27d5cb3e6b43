package artifacts

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxName is how long a name may be, in bytes: a result repeats it, escaped, in a URI.
const maxName = 1024

var errChanged = errors.New("it changed while it was read")

// checkName refuses a name that could not stand in a line of a result.
func checkName(name string) error {
	switch {
	case len(name) > maxName:
		return fmt.Errorf("its name has more than %d bytes", maxName)
	case !utf8.ValidString(name) ||
		strings.ContainsFunc(name, func(r rune) bool { return unicode.IsControl(r) || r == '\\' }):
		return errors.New("its name has control characters, a backslash, or is not UTF-8")
	case !fs.ValidPath(name):
		return errors.New("its name leads out of the directory")
	}
	return nil
}

// checkKind refuses what is not a regular file.
func checkKind(info fs.FileInfo) error {
	switch mode := info.Mode(); {
	case mode.IsRegular():
		return nil
	case mode&fs.ModeSymlink != 0:
		return errors.New("it is a symbolic link")
	case mode&fs.ModeNamedPipe != 0:
		return errors.New("it is a FIFO")
	case mode&fs.ModeSocket != 0:
		return errors.New("it is a socket")
	case mode&fs.ModeDevice != 0:
		return errors.New("it is a device")
	default:
		return errors.New("it is not a regular file")
	}
}

// source reads a file of the directory up to the size that it had when it was listed.
type source struct {
	file   *os.File
	listed fs.FileInfo
	left   io.LimitedReader
}

// checkParents refuses a name that leads through a symbolic link, since the library follows those in a
// pattern. A command in a sandbox could have runnel read so what it may not read itself.
func checkParents(root *os.Root, name string) error {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if info, err := root.Lstat(dir); err != nil || !info.IsDir() {
			return errors.New("a directory of its path is a symbolic link")
		}
	}
	return nil
}

// open opens a regular file. The root keeps the path inside the directory, and openFlags keep a FIFO that
// took its place from blocking; what was opened must be what was listed.
func open(root *os.Root, name string, listed fs.FileInfo) (*source, error) {
	if err := cmp.Or(checkKind(listed), checkParents(root, name)); err != nil {
		return nil, err
	}
	f, err := root.OpenFile(name, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return nil, fmt.Errorf("it cannot be opened: %w", rootCause(err))
	}
	now, err := f.Stat()
	if err != nil || !isSame(listed, now) {
		_ = f.Close()
		return nil, errChanged
	}
	return &source{f, listed, io.LimitedReader{R: f, N: listed.Size()}}, nil
}

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) { return s.left.Read(p) }

// check reports whether the file was read as a whole and has not changed since it was listed.
func (s *source) check() error {
	now, err := s.file.Stat()
	if err != nil || s.left.N > 0 || !isSame(s.listed, now) {
		return errChanged
	}
	return nil
}

// rootCause returns the reason without the path, which the message has.
func rootCause(err error) error {
	if about, ok := errors.AsType[*fs.PathError](err); ok {
		return about.Err
	}
	return err
}
