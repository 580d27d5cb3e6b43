package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The official conformance suite finds in the program over HTTP what the specification requires, in both
// eras: of servers, and of clients. The tools that it needs beside those of the self-test come from an
// upstream. Checks that fail as expected are listed with the reason.
func TestConformance(t *testing.T) {
	t.Parallel()
	dir, err := filepath.Abs(filepath.Join(interopDir, "conformance"))
	if err != nil {
		t.Fatal(err)
	}
	npmCI(t)
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(version+"/server", func(t *testing.T) {
			t.Parallel()
			s := serveHTTP(t, append(writeConfig(t,
				fmt.Sprintf("upstreams: {fixtures: {command: [node, %q]}}",
					filepath.Join(dir, "fixtures.mjs"))), "--selftest", "--state", "memory")...)
			conforms(t, dir, version, "server", "--url", s.url)
		})
		t.Run(version+"/client", func(t *testing.T) {
			t.Parallel()
			conforms(t, dir, version, "client", "--command", "node client.mjs")
		})
	}
}

var failing = regexp.MustCompile(`(?m)^✗ (.+): [0-9]+ passed`)

// conforms runs what a version requires. The suite itself lets pass what fails of extensions, and of
// scenarios that are newer.
func conforms(t *testing.T, dir, version string, args ...string) {
	ctx, cancel := context.WithTimeout(t.Context(), interopTimeout)
	defer cancel()
	// Each scenario's own limit is 30 s, and the suite starts 39 of them at once.
	suite := exec.CommandContext(ctx, "node",
		append([]string{"--import", "./node20.mjs",
			"../node_modules/@modelcontextprotocol/conformance/dist/index.js"},
			append(args, "--requirements", version, "--expected-failures", "expected-failures.yaml",
				"--timeout", "150000", "-o", t.TempDir())...)...)
	suite.Dir = dir
	suite.Env = append(environ(t), "RUNNEL="+builtProgram(t))
	suite.WaitDelay = watchdog
	out, err := suite.CombinedOutput()
	_, summary, _ := strings.Cut(string(out), " SUMMARY ===")
	if err != nil || !strings.Contains(summary, " passed, ") {
		t.Fatalf("%v\n%s", err, out)
	}
	expected, err := os.ReadFile(filepath.Join(dir, "expected-failures.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, scenario := range failing.FindAllStringSubmatch(summary, -1) {
		if name := "  - " + scenario[1]; !strings.Contains(string(expected), name+"\n") &&
			!strings.Contains(string(expected), name+":") {
			t.Errorf("%s fails:\n%s", scenario[1], out)
		}
	}
	t.Log(summary)
}
