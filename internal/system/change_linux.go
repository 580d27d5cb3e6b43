package system

import (
	"io/fs"
	"syscall"
	"time"
)

// ChangeTime returns when a file or its entry last changed, which no program can set (statx(2), stx_ctime).
// ok is false where the system does not tell.
func ChangeTime(info fs.FileInfo) (at time.Time, ok bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return at, false
	}
	return time.Unix(int64(s.Ctim.Sec), int64(s.Ctim.Nsec)), true //nolint:unconvert // 32 bits on some processors
}
