package doctor

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"runnel/internal/serve"
)

// A server that does not start is said to be the one at fault, and why; one that never answers is waited for
// so long and no longer.
func TestServersThatDoNotStart(t *testing.T) {
	defer func(was time.Duration) { checkTime = was }(checkTime)
	checkTime = 2 * time.Second
	dir := t.TempDir()
	file := filepath.Join(dir, "runnel.yaml")
	if err := os.WriteFile(file, []byte(`
upstreams:
  one: {command: [sh, -c, "echo cannot find the host no.invalid >&2; exit 3"]}
  two: {command: [sh, -c, "exec sleep 600"]}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	d := Doctor{Setup: &serve.Setup{Env: []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH")}, Stdout: &out,
		Stderr: &out}}
	d.Options.Config = file
	d.Here(t.Context())
	if wrong, err := d.Verdict(); wrong < 2 || err != nil {
		t.Errorf("%d things are wrong, %v", wrong, err)
	}
	want := regexp.MustCompile(`(?s)WRONG  upstream one: cannot start: [^\n]*\n +cannot find the host no.invalid` +
		`.*WRONG  upstream two: cannot start: [^\n]*it did not start within 2s`)
	if !want.Match(out.Bytes()) {
		t.Errorf("%s\nwant %s", out.Bytes(), want)
	}
}
