package artifacts

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bmatcuk/doublestar/v4"
)

// tree makes a directory with empty files.
func tree(t *testing.T, names ...string) *os.Root {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return root
}

// Each pattern finds what the library's own walk finds.
func TestListIsThatOfTheLibrary(t *testing.T) {
	root := tree(t, "a.png", "b.txt", "report/a.html", "report/x/b.html", "report/x/y/c.html", "other/a.html",
		"deep/1/2/3/4/z.png", "node_modules/a/b.png", ".hidden/a.png", "report/x.png/in.txt")
	for _, pattern := range []string{"*.png", "**", "**/*.png", "report/*", "report/**", "report/*/*.html",
		"{report,other}/*.html", "{report/x,deep/1/2}/**", "*/*", "rep*/**/c.html", "**/x/**",
		"report/x/y/c.html",
		"nothing/*", "[ab].*", "?.png", "**/**/z.png", "node_modules/*/*.png"} {
		want := map[string]bool{}
		err := doublestar.GlobWalk(root.FS(), pattern, func(name string, d os.DirEntry) error {
			if !strings.HasPrefix(name, "node_modules") || strings.HasPrefix(pattern, "node_modules") {
				want[name] = true
			}
			return nil
		}, doublestar.WithNoFollow(), doublestar.WithFilesOnly())
		if err != nil {
			t.Fatal(err)
		}
		got, err := list(root, []string{pattern})
		if err != nil {
			t.Fatal(err)
		}
		is, should := slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want))
		if strings.Join(is, " ") != strings.Join(should, " ") {
			t.Errorf("%s finds %q, want %q", pattern, is, should)
		}
	}
}

// A directory is read once, whatever the patterns, and not at all if none leads into it.
func TestDirectoriesAreReadOnce(t *testing.T) {
	var names []string
	for i := range 100 {
		names = append(names, fmt.Sprintf("src/%d/a.txt", i), fmt.Sprintf("node_modules/%d/a.txt", i))
	}
	root := tree(t, names...)
	for patterns, want := range map[string]int{"*.txt": 2, "**/*.txt": 202,
		"src/**/a.txt **/b **/c/** **": 202,
		"src/1/*":                      103,
		"node_modules/1/*":             103} {
		l := lister{root: root, patterns: strings.Fields(patterns), found: listing{}, left: maxEntries}
		if err := l.read("."); err != nil {
			t.Fatal(err)
		}
		if read := maxEntries - l.left; read != want {
			t.Errorf("%s: %d entries were read, want %d", patterns, read, want)
		}
		l = lister{root: root, patterns: strings.Fields(patterns), found: listing{}, left: 1}
		if err := l.read("."); err != errTooMany {
			t.Errorf("%s: %v", patterns, err)
		}
	}
}
