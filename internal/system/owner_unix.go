//go:build unix

package system

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// IsForeign reports whether a file belongs to another user than this process's, and names its owner.
func IsForeign(_ string, info fs.FileInfo) (owner string, foreign bool) {
	uid := info.Sys().(*syscall.Stat_t).Uid
	return fmt.Sprint(uid), int(uid) != os.Geteuid()
}

// WritableByOthers reports whether anybody but its user may change a file. rights shows the file's rights,
// for a message.
func WritableByOthers(_ string, info fs.FileInfo) (rights string, writable bool) {
	return info.Mode().String(), info.Mode().Perm()&0o022 != 0
}

// ReadableByOthers reports whether anybody but its user may read a file. rights shows the file's rights, for
// a message.
func ReadableByOthers(_ string, info fs.FileInfo) (rights string, readable bool) {
	return info.Mode().String(), info.Mode().Perm()&0o077 != 0
}

// TakeOver returns the command that makes a folder and its contents this user's.
func TakeOver(dir string) string { return fmt.Sprintf("chown -R %d %q", os.Geteuid(), dir) }

// TakeRights returns the command that takes the right to write a folder and its contents from all other
// users.
func TakeRights(dir string) string { return fmt.Sprintf("chmod -R go-w %q", dir) }

// KeepOwner gives a file the owner of the file that it will replace, so that root does not take a file from
// its user. It leaves out a group that this process may not give.
func KeepOwner(f *os.File, of fs.FileInfo) error {
	was := of.Sys().(*syscall.Stat_t)
	err := f.Chown(int(was.Uid), int(was.Gid))
	if int(was.Uid) == os.Geteuid() {
		return nil
	}
	return err
}

// KeepPrivate is the command that takes all rights to a file from other users.
const KeepPrivate = "chmod 600"
