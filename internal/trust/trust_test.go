package trust

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"runnel/tools/config"
)

// A file that is trusted again, with the same content, is trusted all the time: a runnel that starts then
// would go without its tools until it is started again.
func TestTrustedAgainWhileRead(t *testing.T) {
	dir := t.TempDir()
	f := Files{Getenv: func(name string) string {
		return map[string]string{config.StateVariable: filepath.Join(dir, "state"), "HOME": dir}[name]
	}}
	file, text := filepath.Join(dir, config.FileName), []byte("tools: {}\n")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	add := func() {
		if _, err := f.Add(file, text); err != nil {
			t.Error(err)
		}
	}
	add()
	var writer sync.WaitGroup
	writer.Go(func() {
		for range 1000 {
			add()
		}
	})
	for range 1000 {
		if _, info, left := f.Read(file); info == nil {
			t.Errorf("it is left out: %v", left)
			break
		}
	}
	writer.Wait()
	if lines, err := f.List(); err != nil || lines != file+"\n" {
		t.Errorf("%q, %v", lines, err)
	}
}
