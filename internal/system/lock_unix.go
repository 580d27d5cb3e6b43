//go:build unix

package system

import (
	"os"

	"golang.org/x/sys/unix"
)

// ErrLocked is what [Lock] returns when another process holds the file.
const ErrLocked = unix.EWOULDBLOCK

// Lock locks a file for this process, without waiting. The system releases the lock when the file is closed,
// or when the process ends in any way.
func Lock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

// LockShared is Lock for a lock that several processes may hold at the same time.
func LockShared(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) }

// OpenLockable opens a file for reading and writing; other processes may remove it meanwhile.
func OpenLockable(name string, flags int, mode os.FileMode) (*os.File, error) {
	return os.OpenFile(name, flags|os.O_RDWR, mode)
}
