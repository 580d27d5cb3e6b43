//go:build unix

package system

import (
	"errors"
	"math"

	"golang.org/x/sys/unix"
)

const (
	// NoWait opens a pipe without waiting for its other end, and a terminal without making it the controlling
	// one.
	NoWait = unix.O_NONBLOCK | unix.O_NOCTTY
	// NoFollow refuses to open a link.
	NoFollow = unix.O_NOFOLLOW
)

// FreeRoom returns how many bytes are free on a directory's disk.
func FreeRoom(dir string) int64 {
	var disk unix.Statfs_t
	if unix.Statfs(dir, &disk) != nil {
		return math.MaxInt64 // if unknown, assume enough
	}
	return int64(disk.Bavail) * int64(disk.Bsize) //nolint:unconvert // other systems have other types
}

// IsFull reports whether an error says that the disk is full.
func IsFull(err error) bool { return errors.Is(err, unix.ENOSPC) }

// CanWrite returns an error if no file can be made in a directory.
func CanWrite(dir string) error {
	return unix.Access(dir+"/.", unix.W_OK|unix.X_OK) // the dot makes a file fail, which is not a directory
}

// Limits returns how many files this process may open, and how many processes its user may have.
func Limits() (files, processes uint64) {
	limit := func(resource int) uint64 {
		var l unix.Rlimit
		if unix.Getrlimit(resource, &l) != nil {
			return math.MaxUint64
		}
		return uint64(l.Cur) //nolint:unconvert // other systems have other types
	}
	return limit(unix.RLIMIT_NOFILE), limit(unix.RLIMIT_NPROC)
}
