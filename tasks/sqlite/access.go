package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// stateFiles are the names of what a state consists of, its directory first.
var stateFiles = []string{".", leaseDir, "lock", databaseFile, databaseFile + "-wal", databaseFile + "-shm"}

// checkAccess refuses a state that others than this user may change: they could let runnel tell its clients anything. What is not
// there passes. The directories above may be anybody's, such as /tmp: what others put in the place of the state is theirs, and
// refused the next time.
func checkAccess(dir string) error {
	for _, name := range stateFiles {
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return err
		}
		const elsewhere = "or name another directory with --state"
		if owner := info.Sys().(*syscall.Stat_t).Uid; int(owner) != os.Geteuid() {
			return fmt.Errorf("%s belongs to another user (%d): use runnel as that user, take it over with chown -R %d %q, %s", path, owner, os.Geteuid(), dir, elsewhere)
		}
		if info.Mode().Perm()&0o022 != 0 {
			return fmt.Errorf("others may write %s (%v): take their rights with chmod -R go-w %q, %s", path, info.Mode(), dir, elsewhere)
		}
	}
	return nil
}
