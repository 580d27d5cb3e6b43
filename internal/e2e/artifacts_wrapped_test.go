package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The files that the tools of two wrapped runnels have made are read through the one before them, as
// resources, from any byte on, also where the output was too long for the result, whose link leads to the log
// of this task.
func TestArtifactsOfWrappedRunnels(t *testing.T) {
	t.Parallel()
	dir, program := t.TempDir(), racedProgram(t)
	upstreams := "upstreams:\n"
	for _, name := range []string{"a", "b"} {
		work := filepath.Join(dir, name)
		if err := os.Mkdir(work, 0o700); err != nil {
			t.Fatal(err)
		}
		last := writeConfig(t, fmt.Sprintf(`
tools:
  short: {shell: 'printf "%[1]s %%s" $$ > "a file.txt"; echo made', dir: %[2]q, artifacts: ["*.txt"]}
  long: {shell: 'seq 100000; head -c 1000000 /dev/urandom > large.bin', dir: %[2]q, artifacts: ["*.bin"]}
`, name, work))
		upstreams += fmt.Sprintf("  %s: {command: [%q, %q, %q, --state, %q], prefix: %[1]s_}\n", name, program,
			last[0], last[1], stateDir(t))
	}
	w := newWitness(t, programCommand(t, append(writeConfig(t, upstreams), "--state", stateDir(t))...))
	for range 2 {
		for _, name := range []string{"a", "b"} {
			for tool, file := range map[string]string{"short": "a file.txt", "long": "large.bin"} {
				_, r := w.texts(name+"_"+tool, nil)
				var link madeItem
				for _, item := range madeItems(t, &r) {
					if item.Type == "resource_link" && item.Name == file {
						link = item
					}
				}
				want, err := os.ReadFile(filepath.Join(dir, name, file))
				if err != nil || link.Size != int64(len(want)) {
					t.Fatalf("%s_%s: %v, %+v in %.2000s", name, tool, err, link, r.Content)
				}
				for _, after := range []int64{0, 3} {
					if got := w.readFile(link.URI, after); !bytes.Equal(got, want[after:]) {
						t.Errorf("%s_%s: %d bytes of %s after %d, want %d", name, tool, len(got), link.URI, after,
							len(want))
					}
				}
				if tool == "long" && !strings.Contains(fmt.Sprintf("%s", r.Content), "/log") {
					t.Errorf("%s_%s has no log: %.2000s", name, tool, r.Content)
				}
			}
		}
	}
	none := map[string]any{"uri": "runnel://tasks/00000000-0000-4000-8000-000000000000/files/x"}
	if a := w.call("resources/read", none); a.Error == nil || !strings.Contains(a.Error.Message, "not found") {
		t.Errorf("a file that there is not: %+v", a)
	}
	w.end()
}
