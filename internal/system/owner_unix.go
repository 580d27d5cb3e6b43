//go:build unix

package system

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// IsForeign reports whether a file belongs to another user than this process's. owner names that one.
func IsForeign(_ string, info fs.FileInfo) (owner string, foreign bool) {
	uid := info.Sys().(*syscall.Stat_t).Uid
	return fmt.Sprint(uid), int(uid) != os.Geteuid()
}

// WritableByOthers reports whether others than its user may change a file. rights are those that it gives, for a message.
func WritableByOthers(_ string, info fs.FileInfo) (rights string, writable bool) {
	return info.Mode().String(), info.Mode().Perm()&0o022 != 0
}

// ReadableByOthers reports whether others than its user may read a file. rights are those that it gives, for a message.
func ReadableByOthers(_ string, info fs.FileInfo) (rights string, readable bool) {
	return info.Mode().String(), info.Mode().Perm()&0o077 != 0
}

// TakeOver is the command that makes a folder and what is in it this user's.
func TakeOver(dir string) string { return fmt.Sprintf("chown -R %d %q", os.Geteuid(), dir) }

// TakeRights is the command that takes the right to write a folder, and what is in it, from all others.
func TakeRights(dir string) string { return fmt.Sprintf("chmod -R go-w %q", dir) }

// KeepOwner gives a file the owner of another one that it is to replace: who runs as root must not take it from its user. A group that
// this process may not give is left out.
func KeepOwner(f *os.File, of fs.FileInfo) error {
	was := of.Sys().(*syscall.Stat_t)
	err := f.Chown(int(was.Uid), int(was.Gid))
	if int(was.Uid) == os.Geteuid() {
		return nil
	}
	return err
}

// KeepPrivate is the command that takes all rights to a file from others.
const KeepPrivate = "chmod 600"
