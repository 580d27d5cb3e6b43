package trace

import (
	"fmt"
	"io/fs"
	"os"

	"runnel/internal/system"
)

// CreateFile opens a file for writing that only its user may read, and fails if that is not possible. It
// follows a link only if the user owns it. Devices stay as they are.
func CreateFile(file string) (*os.File, error) {
	const flags = os.O_WRONLY | os.O_CREATE // without O_TRUNC, which would empty another user's file
	f, err := os.OpenFile(file, flags|system.NoFollow, 0o600)
	if link, _ := os.Lstat(file); err != nil && link != nil && link.Mode()&fs.ModeSymlink != 0 {
		if _, foreign := system.IsForeign(file, link); foreign {
			return nil, fmt.Errorf("%s is a link that another user made: name the file itself", file)
		}
		f, err = os.OpenFile(file, flags, 0o600)
	}
	if err != nil {
		return nil, err
	}
	if err := makePrivate(f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func makePrivate(f *os.File) error {
	info, err := f.Stat()
	switch {
	case err != nil:
		return err
	case info.Mode()&fs.ModeDevice != 0:
		return nil
	}
	if _, foreign := system.IsForeign(f.Name(), info); foreign {
		return fmt.Errorf("%s belongs to another user: name a file of your own", f.Name())
	}
	if err := f.Chmod(0o600); err != nil {
		return err
	}
	if info.Mode().IsRegular() {
		return f.Truncate(0)
	}
	return nil
}
