//go:build unix

package propose

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"runnel/internal/system"
)

// A pipe in the place of a manifest is passed over: opening it would wait for its writer for ever.
func TestPipesAreNoManifests(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{
		"GNUmakefile", "makefile", "Makefile", "package.json", "yarn.lock", "justfile", "Taskfile.yml",
		"go.mod", "Cargo.toml", "pyproject.toml", "tox.ini",
		"CMakeLists.txt", "CMakePresets.json", "meson.build", "compose.yaml", "Dockerfile", ".golangci.yml",
	} {
		if err := syscall.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if text, files := Propose(system.Dir(dir), "", testCaches); len(files) > 0 || text != "" {
			t.Errorf("%q:\n%s", files, text)
		}
	}
	if err := os.Remove(filepath.Join(dir, "Makefile")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "Makefile"), []byte("test:\n\tgo test\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, files := Propose(system.Dir(dir), "", testCaches); len(files) != 1 || files[0] != "Makefile" {
		t.Errorf("%q", files)
	}
}
