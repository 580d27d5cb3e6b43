package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The official conformance suite finds in the program over HTTP what the specification requires of servers, in both eras. What it looks for
// beside the self-test tools comes from an upstream. Checks that fail as expected are listed with the reason.
func TestConformance(t *testing.T) {
	t.Parallel()
	dir, err := filepath.Abs(filepath.Join("testdata", "interop", "conformance"))
	if err != nil {
		t.Fatal(err)
	}
	npmCI(t, dir)
	s := serveHTTP(t, append(writeConfig(t, fmt.Sprintf("upstreams: {fixtures: {command: [node, %q]}}", filepath.Join(dir, "fixtures.mjs"))), "--selftest", "--state", "memory")...)
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), interopTimeout)
			defer cancel()
			suite := exec.CommandContext(ctx, "node", "--import", "./node20.mjs", "node_modules/@modelcontextprotocol/conformance/dist/index.js",
				"server", "--url", s.url, "--requirements", version, "--expected-failures", "expected-failures.yaml", "-o", t.TempDir())
			suite.Dir = dir
			suite.Env = environ(t)
			suite.WaitDelay = watchdog
			out, err := suite.CombinedOutput()
			_, summary, _ := strings.Cut(string(out), "=== SUMMARY ===")
			if err != nil || !strings.Contains(summary, " passed, ") {
				t.Fatalf("%v\n%s", err, out)
			}
			t.Log(summary)
		})
	}
}
