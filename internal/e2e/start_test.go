package e2e

import (
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Each client pays for what a start does before main. Bytes, not milliseconds: they are the same on every
// machine.
func TestInitsAllocateLittle(t *testing.T) {
	t.Parallel()
	// Some 441 KiB today, 80 of them for JSON Schema, 50 for NATS and encoding/gob, which it needs, and 23 for the types of
	// files; one more library that compiles its tables takes more.
	const most = 480 << 10
	// Patterns of runnel's own are compiled when they are first used.
	const mostOwn = 16 << 10
	cmd := programCommand(t, "version")
	cmd.Env = append(cmd.Env, "GODEBUG=inittrace=1")
	var trace strings.Builder
	cmd.Stderr = &trace
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	sum := 0
	for _, m := range regexp.MustCompile(`(?m)^init (\S+) .* clock, (\d+) bytes`).
		FindAllStringSubmatch(trace.String(), -1) {
		n, _ := strconv.Atoi(m[2])
		sum += n
		if strings.HasPrefix(m[1], "runnel") && n > mostOwn {
			t.Errorf("%s allocates %d bytes before main, want %d at most", m[1], n, mostOwn)
		}
	}
	if sum == 0 || sum > most {
		t.Errorf("%d bytes before main, want %d at most:\n%s", sum, most, &trace)
	}
}

// Packages whose weight would be paid at each start, and what is here instead.
func TestHeavyPackagesAreLeftOut(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-deps", "-f", "{{.ImportPath}}", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	deps := strings.Fields(string(out))
	for path, instead := range map[string]string{
		"github.com/santhosh-tekuri/jsonschema/v6":       "github.com/google/jsonschema-go: the other compiles five meta-schemas, 3 ms",
		"github.com/prometheus/client_golang/prometheus": "github.com/VictoriaMetrics/metrics: the other sets up protobuf, 1.5 ms",
	} {
		if slices.Contains(deps, path) {
			t.Errorf("%s is linked; use %s", path, instead)
		}
	}
}
