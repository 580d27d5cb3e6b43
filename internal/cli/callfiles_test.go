package cli

import (
	"os"
	"path/filepath"
	"testing"

	"runnel/rpc/mcp"
)

// A file that cannot be saved as its link describes it leaves what stood in its place, and nothing else.
func TestFileThatIsNotSaved(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.txt"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	for range 2 {
		l := &fileLink{URI: "runnel://tasks/none/files/a.txt", Name: "a.txt",
			Meta: map[string]any{mcp.MetaSHA256: "that of another file"}}
		if err := new(call).saveFile(t.Context(), root, l); err == nil {
			t.Error("it was saved")
		}
		entries, _ := os.ReadDir(dir)
		text, _ := os.ReadFile(filepath.Join(dir, "a.txt"))
		if len(entries) != 1 || string(text) != "mine" {
			t.Errorf("there are %d files, and %q", len(entries), text)
		}
	}
}
