//go:build unix

package upstream

import (
	"path/filepath"
	"syscall"
	"testing"
)

// A pipe in the place of a kept list is not waited for.
func TestKeptListIsAPipe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "list.json")
	if err := syscall.Mkfifo(file, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if c := loadCatalog(file); c != nil {
			t.Errorf("%v", c)
		}
	}
}
