//go:build unix

package upstream

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"

	"runnel/tools/config"
)

// Two servers share their kept lists only if nothing that they get differs. A host gives runnel the
// environment of a server's entry, so two entries of one program may differ in that alone.
func TestKeptListsAreOfOneServer(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write("server", "#!/bin/sh\n")
	write("script", "first")
	file := func(env ...string) string {
		u, err := New("x", config.Upstream{Command: []string{"./server", "script"}},
			config.Base{Dir: dir, Vars: env}, zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		return catalogFile("state", u.definition, shown(nil, "1"))
	}
	first := file("B=1", "A=1", "WINDOWID=1")
	if again := file("A=1", "B=1", "WINDOWID=2"); again != first {
		t.Error("another terminal has other lists")
	}
	if file("A=1", "B=1", "READ_ONLY=1") == first {
		t.Error("another environment has the same lists")
	}
	for _, name := range []string{"server", "script"} {
		before := file("A=1", "B=1")
		write(name, "#!/bin/sh\n# another version of it\n")
		if file("A=1", "B=1") == before {
			t.Errorf("another %s has the same lists", name)
		}
	}
}
