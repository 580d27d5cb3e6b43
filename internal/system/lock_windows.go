package system

import (
	"os"

	"golang.org/x/sys/windows"
)

// ErrLocked is what [Lock] returns when another process holds the file.
const ErrLocked = windows.ERROR_LOCK_VIOLATION

// Lock locks a file for this process, without waiting. The system releases the lock when the file is closed,
// or when the process ends in any way.
func Lock(f *os.File) error { return lock(f, windows.LOCKFILE_EXCLUSIVE_LOCK) }

// LockShared is Lock for a lock that several processes may hold at the same time.
func LockShared(f *os.File) error { return lock(f, 0) }

// lock locks the file's first byte, which is never read.
func lock(f *os.File, how uint32) error {
	return windows.LockFileEx(windows.Handle(f.Fd()), how|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0,
		new(windows.Overlapped))
}

// OpenLockable opens a file for reading and writing; other processes may remove it meanwhile.
func OpenLockable(name string, flags int, mode os.FileMode) (*os.File, error) {
	path, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	how := uint32(windows.OPEN_EXISTING)
	switch {
	case flags&os.O_EXCL != 0:
		how = windows.CREATE_NEW
	case flags&os.O_CREATE != 0:
		how = windows.OPEN_ALWAYS
	}
	h, err := windows.CreateFile(path, windows.GENERIC_READ|windows.GENERIC_WRITE,
		windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE|windows.FILE_SHARE_DELETE, nil, how,
		windows.FILE_ATTRIBUTE_NORMAL, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(h), name), nil
}
