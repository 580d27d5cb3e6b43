package e2e

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A server answers through "runnel wrap --" as it does directly, method by method: to the official TypeScript
// clients of both eras, to mcp-remote over HTTP, and to the Inspector.
func TestWrappedServerAnswersTheSame(t *testing.T) {
	t.Parallel()
	npmCI(t)
	dir := filepath.Join(interopDir, "wrap")
	for _, args := range [][]string{{"compare.mjs", "2025"}, {"compare.mjs", "2026"}, {"inspector.mjs"},
		{"remote.mjs"}} {
		t.Run(args[0]+" "+args[len(args)-1], func(t *testing.T) { interop(t, dir, "node", args...) })
	}
}

// Servers from npm answer clients of both eras through "runnel wrap --" as they do directly, member by
// member: the only differences are those of allowed.mjs. Those from npm speak 2025-11-25, so a client of
// 2026-07-28 reaches them across the eras; one made with the official SDK speaks both. The test prints the
// table. make fidelity plays all twenty (RUNNEL_TEST_FIDELITY=all), which takes minutes; otherwise it is the
// four that have the most kinds of answers.
func TestFidelity(t *testing.T) {
	t.Parallel()
	npmCI(t)
	dir := filepath.Join(interopDir, "fidelity")
	npmCIIn(t, dir)
	servers := cmp.Or(os.Getenv("RUNNEL_TEST_FIDELITY"), "few")
	for _, era := range []string{"2025", "2026"} {
		t.Run(era, func(t *testing.T) { interop(t, dir, "node", "compare.mjs", era, servers) })
	}
}

// A call of one of runnel's own tools starts no upstream, not even one that hangs.
func TestLocalToolStartsNoUpstream(t *testing.T) {
	t.Parallel()
	started := filepath.Join(t.TempDir(), "started")
	config := func(upstream string) []string {
		return writeConfig(t, fmt.Sprintf("tools:\n  hi: {command: [echo, hi]}\n%s", upstream))
	}
	alone := config("")
	beside := config(fmt.Sprintf("upstreams:\n  hung: {command: [sh, -c, 'echo x >> %s; exec sleep 600'], prefix: h_}", started))
	for _, args := range [][]string{{"call", "hi"}, {"tools", "hi"}, {"call", "hi", "--help"},
		{"__complete", "call", ""}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			best := func(config []string) (least time.Duration) {
				least = time.Hour
				for range 5 {
					began := time.Now()
					got := runClient(t, "", append(args[:len(args):len(args)], config...)...)
					least = min(least, time.Since(began))
					if got.code != exitFine || !strings.Contains(got.stdout, "hi") &&
						args[0] != "__complete" {
						t.Fatalf("exit code %d\n%q\n%s", got.code, got.stdout, got.stderr)
					}
				}
				return least
			}
			if args[0] == "__complete" { // whose last word is what is completed
				args = append([]string{"__complete", "call"}, beside...)
				runClient(t, "", append(args, "")...)
			} else {
				without, with := best(alone), best(beside)
				t.Logf("best of 5: %v without the upstream, %v with it", without, with)
			}
			if _, err := os.Stat(started); err == nil {
				t.Error("the upstream was started")
			}
		})
	}
}
