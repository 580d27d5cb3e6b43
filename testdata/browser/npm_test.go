package browser

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// npm installs the packages of npm/ once into the user's cache, and returns the directory node_modules. No
// script of a package runs.
func npm(t *testing.T) string {
	t.Helper()
	root := *cache
	if root == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		root = filepath.Join(base, "runnel-browser")
	}
	lock, err := os.ReadFile(filepath.Join("npm", "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(lock)
	dir := filepath.Join(root, hex.EncodeToString(sum[:6]))
	modules := filepath.Join(dir, "node_modules")
	if _, err := os.Stat(modules); err == nil {
		return modules
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		t.Fatal(err)
	}
	part, err := os.MkdirTemp(root, "part-")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(part) }()
	if err := os.CopyFS(part, os.DirFS("npm")); err != nil {
		t.Fatal(err)
	}
	install := exec.Command("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
	install.Dir = part
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("npm ci: %v: this needs npm, and a registry that can be reached\n%s", err, out)
	}
	if err := os.Rename(part, dir); err != nil && !errors.Is(err, fs.ErrExist) { // another process was first
		t.Fatal(err)
	}
	return modules
}
