package serve

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
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
		"emptied":       func(file string) error { return os.WriteFile(file, nil, 0o600) },
		"commented out": func(file string) error { return os.WriteFile(file, []byte("# "+token+" alice\n"), 0o600) },
		"removed":       os.Remove,
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

// A page of another site whose name stands for this machine (DNS rebinding) does not read the metrics.
func TestMetricsAreGuarded(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	newMetrics().serve(t.Context(), "127.0.0.1:0", zerolog.New(&log))
	address := regexp.MustCompile(`127\.0\.0\.1:[0-9]+`).FindString(log.String())
	for range 2 {
		for _, c := range []struct {
			host, origin string
			status       int
		}{
			{address, "", http.StatusOK}, {"localhost:1234", "", http.StatusOK}, {address, "http://localhost:3000", http.StatusOK},
			{"evil.example:80", "", http.StatusForbidden}, {address, "https://evil.example", http.StatusForbidden},
		} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/metrics", nil)
			if err != nil {
				t.Fatal(err)
			}
			if request.Host = c.host; c.origin != "" {
				request.Header.Set("Origin", c.origin)
			}
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			if response.StatusCode != c.status {
				t.Errorf("host %q, origin %q: %s", c.host, c.origin, response.Status)
			}
		}
	}
}
