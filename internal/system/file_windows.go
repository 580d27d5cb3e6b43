package system

import (
	"errors"
	"math"

	"golang.org/x/sys/windows"
)

const (
	// NoWait opens a pipe without waiting for its other end, and a terminal without taking it over. Files of Windows are never such.
	NoWait = 0
	// NoFollow does not open a link. To make one takes a right of its own here, which strangers do not have.
	NoFollow = 0
)

// FreeRoom is how many bytes of a directory's disk are free.
func FreeRoom(dir string) int64 {
	var free uint64
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil || windows.GetDiskFreeSpaceEx(name, &free, nil, nil) != nil {
		return math.MaxInt64 // when in doubt, enough
	}
	return int64(min(free, math.MaxInt64))
}

// IsFull reports whether an error says that the disk is full.
func IsFull(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL)
}

// CanWrite reports why no file can be made in a directory. Windows says so only when one is made.
func CanWrite(string) error { return nil }

// Limits are how many files this process may open, and how many processes its user may have: as many as memory holds.
func Limits() (files, processes uint64) { return math.MaxUint64, math.MaxUint64 }
