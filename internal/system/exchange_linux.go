package system

import "golang.org/x/sys/unix"

// Exchange gives two files each other's names in one step. It fails where the system or the file system
// cannot do that.
func Exchange(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}
