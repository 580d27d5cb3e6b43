package sqlite

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"runnel/rpc/mcp"
	"runnel/tasks/statetest"
)

// A state that another user has made, or that others may write, is refused with the command that mends it.
func TestSQLiteOfOthers(t *testing.T) {
	t.Parallel()
	const nobody = 65534
	chown := func(path string) error { return os.Chown(path, nobody, -1) }
	chmod := func(path string) error { return os.Chmod(path, 0o777) }
	for name, c := range map[string]struct {
		file   string
		change func(path string) error
		says   string
	}{
		"another's directory":     {".", chown, "chown -R "},
		"another's database":      {databaseFile, chown, "chown -R "},
		"another's leases":        {leaseDir, chown, "chown -R "},
		"a directory for all":     {".", chmod, "chmod -R go-w "},
		"a database for all":      {databaseFile, chmod, "chmod -R go-w "},
		"a folder of leases, too": {leaseDir, chmod, "chmod -R go-w "},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			s := openStore(t, Options{Dir: dir})
			statetest.Put(t, s, statetest.Ended(statetest.Working("a"), mcp.TaskCompleted, "fine"))
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if err := c.change(filepath.Join(dir, c.file)); os.IsPermission(err) {
				t.Skip("only root can give files away")
			} else if err != nil {
				t.Fatal(err)
			}
			err := openStore(t, Options{Dir: dir}).Recover()
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), dir) {
				t.Errorf("opened: %v", err)
			}
			if _, err := Check(t.Context(), dir); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("checked: %v", err)
			}
		})
	}
	// An empty directory of somebody else is not taken either.
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := openStore(t, Options{Dir: dir}).Recover(); err == nil {
		t.Error("a directory that all may write is taken")
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("made in it: %v", left)
	}
	// Below such a one it may be: what is made there is this user's.
	if err := openStore(t, Options{Dir: filepath.Join(dir, "state")}).Recover(); err != nil {
		t.Error(err)
	}
}
