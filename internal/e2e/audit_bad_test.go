package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The audit judges all other tests. Here it is shown sessions that are good up to their last line
// (testdata/audit), and must refuse each at that line, for its own reason.
func TestAuditRefuses(t *testing.T) {
	files, _ := filepath.Glob(filepath.Join("testdata", "audit", "*.txt"))
	if len(files) < 10 {
		t.Fatalf("%d bad sessions", len(files))
	}
	reasons := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		head, session, _ := strings.Cut(string(text), "\n\n")
		_, want, _ := strings.Cut(head, "\nrefused: ")
		if other := reasons[want]; want == "" || other != "" {
			t.Errorf("%s: reason %q, as of %s", file, want, other)
		}
		reasons[want] = file
		a := newAudit(t)
		lines := strings.Split(strings.TrimSpace(session), "\n")
		for n, line := range lines {
			err = nil
			if sent, ok := strings.CutPrefix(line, "--> "); ok {
				a.sent([]byte(sent + "\n"))
			} else {
				err = a.received([]byte(strings.TrimPrefix(line, "<-- ")), time.Time{})
			}
			if err != nil && n+1 < len(lines) {
				t.Errorf("%s: line %d is good, and refused: %v", file, n+1, err)
			}
		}
		if n, _ := a.unanswered(); err == nil && n > 0 {
			err = fmt.Errorf("%d requests were not answered", n)
		}
		if err == nil {
			err = errors.New("not refused")
		}
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %s", file, err, want)
		}
	}
}
