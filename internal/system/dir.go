package system

import (
	"os"
	"path/filepath"
)

// NearestDir is a directory, or the nearest above it that exists: it says whether the directory could be made
// and written.
func NearestDir(dir string) string {
	for {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}
