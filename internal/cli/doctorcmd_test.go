package cli

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A server that does not start is said to be the one at fault, and why; one that never answers is waited for
// so long and no longer.
func TestDoctorOfServersThatDoNotStart(t *testing.T) {
	defer func(was time.Duration) { checkTime = was }(checkTime)
	checkTime = 2 * time.Second
	file := filepath.Join(t.TempDir(), "runnel.yaml")
	if err := os.WriteFile(file, []byte(`
upstreams:
  one: {command: [sh, -c, "echo cannot find the host no.invalid >&2; exit 3"]}
  two: {command: [sh, -c, "exec sleep 600"]}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	runCommand(t, "doctor", "--config", file).is(t, exitFailure,
		`.*WRONG  upstream one: cannot start: [^\n]*\n +cannot find the host no.invalid.*WRONG  upstream two: cannot start: [^\n]*it did not start within 2s.*`, "")
}
