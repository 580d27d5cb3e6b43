//go:build unix

package command

import (
	"errors"
	"strings"
	"testing"
	"time"

	"runnel/tools/config"
)

func TestConfigErrors(t *testing.T) {
	echo := []string{"echo"}
	for _, test := range []struct {
		config  config.Command
		key     string
		problem string
	}{
		{config.Command{}, "", "nothing to run"},
		{config.Command{Command: []string{""}}, "command[0]", "is empty"},
		{config.Command{Command: echo, Shell: "x"}, "shell", "combined with command"},
		{config.Command{Command: []string{"echo", "{{x}}"}, Input: config.Object(`{"y":{}}`)}, "command[1]",
			"{{x}} names no input (allowed: y)"},
		{config.Command{Command: []string{"echo", "{{x}}"}}, "command[1]", "allowed: none"},
		{config.Command{Command: []string{"echo", "{{x}}{{y}}"},
			Input: config.Object(`{"x":{"type":"array"},"y":{"type":"array"}}`)}, "command[1]",
			"both arrays"},
		{config.Command{Command: []string{"/bin/bash", "-ec", "ls {{x}}"}, Input: config.Object(`{"x":{}}`)},
			"command[2]", `the key shell, with "$x"`},
		{config.Command{Command: []string{"env", "sh", "-c", "ls '{{x}}'"}, Input: config.Object(`{"x":{}}`)},
			"command[3]", "would be code"},
		{config.Command{Command: echo, Stdin: "{{x}}"}, "stdin", "{{x}} names no input"},
		{config.Command{Command: echo, Required: []string{"x"}, Input: config.Object(`{"y":{}}`)}, "required",
			`"x" names no input (allowed: y)`},
		{config.Command{Command: echo, Input: config.Object(`{"x":1}`)}, "input.x", "not a JSON Schema"},
		{config.Command{Command: echo, Input: config.Object(`{"type":"array"}`)}, "input.type", "array"},
		{config.Command{Command: echo, Input: config.Object(`{"type":"object"}`), Required: []string{"x"}},
			"required", "whole schema"},
		{config.Command{Shell: "echo", Input: config.Object(`{"dry-run":{}}`)}, "input.dry-run",
			"environment variable"},
		{config.Command{Shell: "echo {{x}}", Input: config.Object(`{"x":{}}`)}, "shell", `allowed: "$x"`},
		{config.Command{Command: echo, Stderr: "merged"}, "stderr", "allowed: merge, separate, discard"},
		{config.Command{Command: echo, ANSI: "no"}, "ansi", "allowed: strip, keep"},
		{config.Command{Command: echo, Output: "bytes"}, "output", "allowed: text, lines"},
		{config.Command{Command: echo, Task: "maybe"}, "task", "allowed: optional, required, forbidden"},
		{config.Command{Command: echo, Pty: true, Stderr: "separate"}, "stderr", "pty"},
		{config.Command{Command: echo, Progress: "("}, "progress", "missing closing )"},
		{config.Command{Command: echo, Progress: "x"}, "progress", "0 groups"},
		{config.Command{Command: echo, Timeout: -1}, "timeout", "negative"},
		{config.Command{Command: echo, OkExitCodes: []int{256}}, "okExitCodes[0]", "0 to 255"},
		{config.Command{Command: echo, MaxConcurrent: -1}, "maxConcurrent", "negative"},
		{config.Command{Command: echo, MaxResult: new(config.Size(2 << 20))}, "maxResult", "1KiB to 960KiB"},
		{config.Command{Command: echo, MaxResult: new(config.Size(0))}, "maxResult", "1KiB to 960KiB"},
		{config.Command{Command: echo, MaxOutput: new(config.Size(0))}, "maxOutput", "1 or more"},
		{config.Command{Command: echo, Input: config.Object(`{"a":`)}, "input", "is not a JSON object"},
		{config.Command{Command: echo, Input: config.Object(`[]`)}, "input", "is not a JSON object"},
		{config.Command{Command: echo, Input: config.Object("{\"a\":{\"title\":\"\xff\"}}")}, "input",
			"is not a JSON object"},
		{config.Command{Command: echo, Structured: "json", OutputSchema: config.Object(`{"a"`)},
			"outputSchema", "is not a JSON object"},
		{config.Command{Command: echo, OutputSchema: config.Object(`{"properties":{}}`)}, "outputSchema",
			"allowed: structured: json"},
		{config.Command{Command: echo, Env: map[string]string{"A=B": ""}}, "env",
			"not a name for a variable"},
	} {
		_, err := New("t", test.config, config.Base{})
		var ce *config.Error
		if !errors.As(err, &ce) || ce.Key != test.key || !strings.Contains(err.Error(), test.problem) {
			t.Errorf("%+v:\nerror %v, want key %q and %q", test.config, err, test.key, test.problem)
		}
	}
}

func TestEmptyOutputSchemaSaysNothing(t *testing.T) {
	mustCommand(t, config.Command{Shell: ":", OutputSchema: config.Object("{}")})
}

func TestUnits(t *testing.T) {
	for text, want := range map[string]config.Size{"0": 0, "17": 17, "64KiB": 64 << 10, "16 MiB": 16 << 20,
		"1GiB": 1 << 30, "5B": 5} {
		var got config.Size
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "KiB", "1.5MiB", "-1", "1KB", "9223372036854775807KiB",
		"99999999999999999999"} {
		var got config.Size
		if err := got.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%s: %d, want an error", text, got)
		}
	}
	for size, want := range map[config.Size]string{0: "0", 17: "17", 64 << 10: "64KiB", 3 << 20: "3MiB",
		1<<20 + 1: "1048577"} {
		if got := size.String(); got != want {
			t.Errorf("%d: %s", size, got)
		}
	}
	for d, want := range map[time.Duration]string{30 * time.Minute: "30m", time.Hour: "1h",
		90 * time.Second: "1m30s", 10 * time.Second: "10s", 0: "0s", 100 * time.Minute: "1h40m"} {
		if got := config.Duration(d).String(); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

func TestDurationNeedsAUnit(t *testing.T) {
	var d config.Duration
	for _, text := range []string{"30", "soon", ""} {
		if err := d.UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), "allowed: ") {
			t.Errorf("%q: error %v", text, err)
		}
	}
	if err := d.UnmarshalText([]byte("1h30m")); err != nil || time.Duration(d) != 90*time.Minute {
		t.Errorf("%v, %v", d, err)
	}
}

// A placeholder after the script is an argument of it, and the file of a script is no code either.
func TestShellsWithArguments(t *testing.T) {
	for _, argv := range [][]string{{"sh", "-c", `echo "$1"`, "sh", "{{x}}"}, {"bash", "{{x}}"}} {
		if _, err := New("t", config.Command{Command: argv, Input: config.Object(`{"x":{}}`)},
			config.Base{}); err != nil {
			t.Errorf("%q: %v", argv, err)
		}
	}
}
