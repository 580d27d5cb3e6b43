package serve

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
)

// Who takes the last token out of the file, or removes the file, wants that no client is admitted. A file
// that is wrong, perhaps since it is being written, changes nothing.
func TestLastTokenIsTakenOut(t *testing.T) {
	const token = "alice-alice-alice-1"
	for name, take := range map[string]func(file string) error{
		"emptied": func(file string) error { return os.WriteFile(file, nil, 0o600) },
		"commented out": func(file string) error {
			return os.WriteFile(file,
				[]byte("# "+token+" alice\n"), 0o600)
		},
		"removed": os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "tokens")
			write := func(text string) {
				t.Helper()
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				write(token + " alice\n")
				admitted, err := tokens(file, zerolog.New(&log))
				if err != nil {
					t.Fatal(err)
				}
				look := func(want bool) {
					t.Helper()
					time.Sleep(2 * time.Second) // synctest's: the next look reads what has changed
					if _, ok := admitted.Get().Owner(token); ok != want {
						t.Errorf("admitted: %t, log: %s", ok, &log)
					}
				}
				for range 2 {
					look(true)
					write("half a lin")
					look(true)
					if err := take(file); err != nil {
						t.Fatal(err)
					}
					look(false)
					look(false)
					if n := strings.Count(log.String(), `"warn"`); n != 1 {
						t.Errorf("%d warnings: %s", n, &log)
					}
					log.Reset()
					write(token + " alice\n")
				}
			})
		})
	}
}
