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
	// Some 497 KiB today, 120 of them for NATS, 60 for the screens of terminals (half of it encoding/gob, which a
	// library of theirs needs), 23 for the types of files and 20 for the names of encodings; one more library that
	// compiles its tables takes more.
	const most = 512 << 10
	cmd := programCommand(t, "version")
	cmd.Env = append(cmd.Env, "GODEBUG=inittrace=1")
	var trace strings.Builder
	cmd.Stderr = &trace
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	sum := 0
	for _, m := range regexp.MustCompile(`(?m)^init \S+ .* clock, (\d+) bytes`).
		FindAllStringSubmatch(trace.String(), -1) {
		n, _ := strconv.Atoi(m[1])
		sum += n
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
