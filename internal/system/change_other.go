//go:build !linux

package system

import (
	"io/fs"
	"time"
)

// ChangeTime returns when a file or its entry last changed; ok is false here.
func ChangeTime(fs.FileInfo) (at time.Time, ok bool) { return at, false }
