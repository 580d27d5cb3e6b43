package hosts

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"runnel/internal/system"
)

// A link stays a link and a file keeps its mode; nothing lies about beside it.
func TestLinksAndModes(t *testing.T) {
	dir, records := t.TempDir(), Records(t.TempDir())
	real, link := filepath.Join(dir, "dotfiles", "settings.json"), filepath.Join(dir, "settings.json")
	if err := os.MkdirAll(filepath.Dir(real), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, real, "{}\n")
	if err := os.Symlink("dotfiles/settings.json", link); err != nil {
		t.Fatal(err)
	}
	h := Find("gemini")
	apply(t, "")(h.Install(link, "runnel", server, records, 0o600))
	if info, err := os.Lstat(link); err != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("%v, %v", info, err)
	}
	if info, err := os.Stat(real); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", info, err)
	}
	if info, err := os.Stat(records.Backup(real, "runnel")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	apply(t, "")(h.Uninstall(link, "runnel", records))
	if got := content(t, link); got != "{}\n" {
		t.Error(got)
	}
	if list, _ := os.ReadDir(filepath.Dir(real)); len(list) != 1 {
		t.Error(list)
	}
}

// A file stays its user's when root edits it.
func TestOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file to somebody")
	}
	path, records := filepath.Join(t.TempDir(), "file"), Records(t.TempDir())
	write(t, path, "{}")
	if err := os.Chown(path, 1234, 1235); err != nil {
		t.Fatal(err)
	}
	apply(t, "")(Find("gemini").Install(path, "runnel", server, records, 0o600))
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if owner, foreign := system.IsForeign(path, info); !foreign || owner != "1234" {
		t.Errorf("it belongs to %s now", owner)
	}
}

// A file that install has made is gone after uninstall, unless its host has written to it.
func TestFileThatWasNotThere(t *testing.T) {
	for _, h := range Table {
		// Neither a nor b is there.
		path, records := filepath.Join(t.TempDir(), "a", "b", "file"), Records(t.TempDir())
		c, err := h.Install(path, "runnel", server, records, 0o600)
		if err != nil || c.file.text != nil {
			t.Fatalf("%s: %v", h.ID, err)
		}
		apply(t, "")(c, nil)
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", h.ID, info, err)
		}
		other := server
		other.Args = nil
		apply(t, "")(h.Install(path, "runnel", other, records, 0o600))
		c, err = h.Uninstall(path, "runnel", records)
		if err != nil || !c.Removes() {
			t.Fatalf("%s: %v", h.ID, err)
		}
		apply(t, "")(c, nil)
		if list, _ := os.ReadDir(filepath.Dir(filepath.Dir(filepath.Dir(path)))); len(list) > 0 {
			t.Errorf("%s: what install has made is still there: %v", h.ID, list)
		}
		if c, err := h.Uninstall(path, "runnel", records); c != nil || err != nil {
			t.Errorf("%s: uninstalled twice: %v", h.ID, err)
		}
	}
}

// A file that is not there yet is known by where links above it lead, too.
func TestNewFileBelowALink(t *testing.T) {
	dir, records := t.TempDir(), Records(t.TempDir())
	if err := os.Mkdir(filepath.Join(dir, "real"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real", filepath.Join(dir, "home")); err != nil {
		t.Fatal(err)
	}
	h, path := Find("codex"), filepath.Join(dir, "home", ".codex", "config.toml")
	apply(t, "")(h.Install(path, "runnel", server, records, 0o600))
	other := server
	other.Args = nil
	apply(t, "")(h.Install(path, "runnel", other, records, 0o600))
	apply(t, "")(h.Uninstall(path, "runnel", records))
	if list, _ := os.ReadDir(filepath.Join(dir, "real")); len(list) > 0 {
		t.Error(list)
	}
}

// If several edit a file at once, each has written its entry or gets an error.
func TestInstallsAtOnce(t *testing.T) {
	path, records := filepath.Join(t.TempDir(), "file"), Records(t.TempDir())
	write(t, path, "{}")
	h := Find("claude-code")
	var wg sync.WaitGroup
	for n := range 16 {
		wg.Go(func() {
			for {
				c, err := h.Install(path, fmt.Sprint("n", n), server, records, 0o600)
				if err == nil {
					err = c.Apply()
				}
				if err == nil {
					return
				}
				if !strings.Contains(err.Error(), "try again") {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	c, err := h.Install(path, "one-more", server, records, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	unlock, err := records.lock()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Apply(); err == nil || !strings.Contains(err.Error(), "another runnel") {
		t.Errorf("it was edited while another one edits: %v", err)
	}
	unlock()
	if got, err := h.Servers([]byte(content(t, path))); err != nil || len(got) != 16 {
		t.Errorf("%d of 16 are there: %v", len(got), err)
	}
}

// A change that the host makes between the plan and the edit is not lost: the edit is planned again.
func TestFileThatChangesMeanwhile(t *testing.T) {
	path, records := filepath.Join(t.TempDir(), "file"), Records(t.TempDir())
	h := Find("claude-code")
	write(t, path, "{}")
	c, err := h.Install(path, "runnel", server, records, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, `{"a": 1}`)
	if err := c.Apply(); err != nil {
		t.Error(err)
	}
	if got := content(t, path); !strings.Contains(got, `"a": 1`) || !strings.Contains(got, `"runnel"`) {
		t.Error(got)
	}
	if c, err = h.Uninstall(path, "runnel", records); err != nil {
		t.Fatal(err)
	}
	write(t, path, `{"a": 2}`)
	if err := c.Apply(); err != nil {
		t.Error(err)
	}
	if got := content(t, path); got != `{"a": 2}` {
		t.Error(got)
	}
	if c, err = h.Install(path, "runnel", server, records, 0o600); err != nil {
		t.Fatal(err)
	}
	write(t, path, `{"a": `)
	if err := c.Apply(); err == nil || !strings.Contains(err.Error(), "nothing was changed") {
		t.Error(err)
	}
	if got := content(t, path); got != `{"a": ` {
		t.Error(got)
	}
	if list, _ := os.ReadDir(filepath.Dir(path)); len(list) != 1 {
		t.Error(list)
	}
}

// Whenever a host writes its file while it is edited, what it has written is there afterwards.
func TestHostWritesWhileItsFileIsEdited(t *testing.T) {
	dir, records := t.TempDir(), Records(t.TempDir())
	path := filepath.Join(dir, "file")
	h := Find("claude-code")
	hostWrites := func(text string) {
		if err := os.WriteFile(filepath.Join(dir, "host"), []byte(text), 0o600); err != nil {
			t.Error(err)
		}
		if err := os.Rename(filepath.Join(dir, "host"), path); err != nil {
			t.Error(err)
		}
	}
	for n := range 200 {
		var c *Change
		var err error
		switch n % 3 {
		case 0: // an edit
			write(t, path, "{}")
			c, err = h.Install(path, "runnel", server, records, 0o600)
		case 1: // a new file
			_ = os.Remove(path)
			c, err = h.Install(path, "runnel", server, records, 0o600)
		case 2: // a file that install has made is removed
			_ = os.Remove(path)
			apply(t, "")(h.Install(path, "runnel", server, records, 0o600))
			c, err = h.Uninstall(path, "runnel", records)
		}
		if err != nil {
			t.Fatal(err)
		}
		var both sync.WaitGroup
		var applied atomic.Bool
		both.Go(func() {
			defer applied.Store(true)
			if err := c.Apply(); err != nil && !errors.Is(err, errChanged) {
				t.Error(err)
			}
		})
		wrote := fmt.Sprintf(`"n": %d`, n)
		both.Go(func() {
			// The file that is about to take the name.
			for part := []string{}; len(part) == 0 && !applied.Load(); {
				part, _ = filepath.Glob(filepath.Join(dir, ".runnel-*"))
			}
			time.Sleep(rand.N(3 * time.Millisecond)) // the moment is what is tested
			hostWrites("{" + wrote + "}")
		})
		both.Wait()
		if got := content(t, path); !strings.Contains(got, wrote) {
			t.Fatalf("round %d: the host's %s is lost: %s", n, wrote, got)
		}
		if list, _ := os.ReadDir(dir); len(list) != 1 {
			t.Fatalf("round %d: left %v", n, list)
		}
	}
}

// A file that is none, and a link to nothing, are refused.
func TestNoFile(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := os.Symlink("nothing", link); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{dir: "not a regular file", link: "leads nowhere"} {
		if _, err := Find("codex").Install(path, "runnel", server, Records(dir), 0); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
		if _, err := Read(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// A file that its user has made read-only stays as it is, though its directory would let it be replaced, and
// a directory that must not be written in is named.
func TestReadOnly(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "settings.json")
	write(t, path, "{}\n")
	refused := func(want string) {
		t.Helper()
		c, err := Find("gemini").Install(path, "runnel", server, Records(t.TempDir()), 0o600)
		if err == nil {
			err = c.Apply()
		}
		if err == nil || !strings.Contains(err.Error(), want) || content(t, path) != "{}\n" {
			t.Errorf("%v: %s", err, content(t, path))
		}
	}
	mode := func(name string, mode fs.FileMode) {
		t.Helper()
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
	}
	mode(path, 0o444)
	refused(path + " is read-only")
	mode(path, 0o644)
	if os.Geteuid() == 0 {
		t.Skip("root may write in every directory")
	}
	mode(dir, 0o555)
	defer mode(dir, 0o755)
	refused("you may not write in " + dir)
}

// --dry-run shows the lines that differ and those around them.
func TestDiff(t *testing.T) {
	got := diff("f", []byte("1\n2\n3\n4\n5\n6\n7\n8\n"), []byte("1\n2\n3\n4\nnew\n5\n6\n7\n8\n"))
	if want := "--- f\n+++ f\n@@ -2,6 +2,7 @@\n 2\n 3\n 4\n+new\n 5\n 6\n 7\n"; got != want {
		t.Errorf("%s", got)
	}
	if got, want := diff("f", nil, []byte("a\n")), "--- f\n+++ f\n@@ -0,0 +1,1 @@\n+a\n"; got != want {
		t.Errorf("%s", got)
	}
}
