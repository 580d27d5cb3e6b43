package system

import (
	"errors"
	"math"

	"golang.org/x/sys/windows"
)

const (
	// NoWait opens a pipe without waiting for its other end, and a terminal without making it the controlling
	// one. On Windows, no file is either.
	NoWait = 0
	// NoFollow refuses to open a link. On Windows, making a link takes a special right, which strangers do
	// not have.
	NoFollow = 0
)

// FreeRoom returns how many bytes are free on a directory's disk.
func FreeRoom(dir string) int64 {
	var free uint64
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil || windows.GetDiskFreeSpaceEx(name, &free, nil, nil) != nil {
		return math.MaxInt64 // if unknown, assume enough
	}
	return int64(min(free, math.MaxInt64))
}

// IsFull reports whether an error says that the disk is full.
func IsFull(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL)
}

// CanWrite returns an error if no file can be made in a directory. Windows shows that only when a file is
// made.
func CanWrite(string) error { return nil }

// Limits returns how many files this process may open, and how many processes its user may have: on Windows,
// only memory limits them.
func Limits() (files, processes uint64) { return math.MaxUint64, math.MaxUint64 }
