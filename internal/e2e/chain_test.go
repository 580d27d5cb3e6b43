package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// ways are the ways in which a runnel can be spoken to as an upstream: what sed makes of the lines to it and
// from it, so that the one before it finds what an older or another server would tell.
var ways = map[string]*struct{ to, from string }{
	// The stateless era: tasks, and their output by subscription.
	"subscription": {},
	// Likewise without the tasks extension: plain calls, and SEP-2998.
	"sep2998": {to: `s#"io.modelcontextprotocol/tasks":{},##`},
	// A server that knows no server/discover: 2025-11-25, tasks and SEP-2679.
	"sep2679": {to: `s#"server/discover"#"none"#`},
	// One that declares no tasks.streaming.partial: SEP-1905.
	"sep1905": {to: `s#"server/discover"#"none"#`, from: `s#"streaming":{"partial":{}},*##`},
	// One of 2025-06-18, without tasks: plain calls, and PR #383.
	"pr383": {to: `s#"server/discover"#"none"#; s#"protocolVersion":"2025-11-25"#"protocolVersion":"2025-06-18"#`},
	// One that has no partial results either: progress, with the last line of output.
	"progress": {to: `s#"server/discover"#"none"#; s#"protocolVersion":"2025-11-25"#"protocolVersion":"2025-06-18"#; s#,"partialResults":true##`},
}

// chain are the flags of a runnel behind which stands another one, behind which stands one with these flags.
// The tools are those of the last one, by their own names.
func chain(t testing.TB, way string, flags ...string) []string {
	t.Helper()
	last := behindIn(t, racedProgram(t), way, flags...)
	return append(behindIn(t, racedProgram(t), way, append(last, "--pace", "0")...), "--pace", "0")
}

// behindIn are the flags of a runnel that has one with these flags as its upstream, and speaks to it in a
// way.
func behindIn(t testing.TB, program, way string, flags ...string) []string {
	t.Helper()
	w := ways[way]
	script := []string{`"$PROGRAM"`}
	for _, flag := range flags {
		script = append(script, "'"+flag+"'")
	}
	line := strings.Join(script, " ")
	switch {
	case w.to != "" && w.from != "":
		line = fmt.Sprintf("sed -u '%s' | %s | sed -u '%s'", w.to, line, w.from)
	case w.to != "":
		line = fmt.Sprintf("sed -u '%s' | %s", w.to, line)
	default:
		line = "exec " + line
	}
	config := filepath.Join(t.TempDir(), "runnel.yaml")
	yaml := fmt.Sprintf("upstreams:\n  next:\n    command: [sh, -c, %q]\n    env: {PROGRAM: %q}\n",
		line, program)
	if err := os.WriteFile(config, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"--config", config}
}
