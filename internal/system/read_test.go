//go:build unix

package system

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A file that others can write may be anything: only a regular one of a bounded size is read, and nothing is
// waited for.
func TestReadRegular(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	file := filepath.Join(dir, "file")
	empty := filepath.Join(dir, "empty")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.WriteFile(file, []byte("12345678"), 0o600),
		os.WriteFile(empty, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for name, says := range map[string]string{pipe: "not a regular file",
			"/dev/zero": "not a regular file", dir: "not a regular file",
			filepath.Join(dir, "none"): "no such file"} {
			if text, _, err := ReadRegular(name, 8); err == nil || text != nil ||
				!strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: %q, %v", name, text, err)
			}
		}
		if text, info, err := ReadRegular(file, 8); string(text) != "12345678" || err != nil ||
			info.Size() != 8 {
			t.Errorf("%q, %v, %v", text, info, err)
		}
		if text, info, err := ReadRegular(empty, 8); text == nil || len(text) > 0 || err != nil ||
			info == nil {
			t.Errorf("%q, %v, %v", text, info, err)
		}
		for _, name := range []string{file, "/dev/zero"} {
			text, err := ReadNamed(name, 7)
			if wrong := (*fs.PathError)(nil); !errors.As(err, &wrong) || wrong.Path != name || text != nil {
				t.Errorf("%s: %q, %v", name, text, err)
			}
		}
	}
	go func() { _ = os.WriteFile(pipe, []byte("of a pipe"), 0) }()
	if text, err := ReadNamed(pipe, 9); !bytes.Equal(text, []byte("of a pipe")) || err != nil {
		t.Errorf("%q, %v", text, err)
	}
}
