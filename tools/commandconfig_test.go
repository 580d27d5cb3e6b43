package tools

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestConfigErrors(t *testing.T) {
	echo := []string{"echo"}
	for _, test := range []struct {
		config  CommandConfig
		key     string
		problem string
	}{
		{CommandConfig{}, "", "nothing to run"},
		{CommandConfig{Command: []string{""}}, "command[0]", "is empty"},
		{CommandConfig{Command: echo, Shell: "x"}, "shell", "beside command"},
		{CommandConfig{Command: []string{"echo", "{{x}}"}, Input: Object(`{"y":{}}`)}, "command[1]", "{{x}} names no input; allowed: y"},
		{CommandConfig{Command: []string{"echo", "{{x}}"}}, "command[1]", "allowed: none"},
		{CommandConfig{Command: []string{"echo", "{{x}}{{y}}"}, Input: Object(`{"x":{"type":"array"},"y":{"type":"array"}}`)}, "command[1]", "both arrays"},
		{CommandConfig{Command: echo, Stdin: "{{x}}"}, "stdin", "{{x}} names no input"},
		{CommandConfig{Command: echo, Required: []string{"x"}, Input: Object(`{"y":{}}`)}, "required", `"x" names no input; allowed: y`},
		{CommandConfig{Command: echo, Input: Object(`{"x":1}`)}, "input.x", "no JSON Schema"},
		{CommandConfig{Command: echo, Input: Object(`{"type":"array"}`)}, "input.type", "array"},
		{CommandConfig{Command: echo, Input: Object(`{"type":"object"}`), Required: []string{"x"}}, "required", "whole schema"},
		{CommandConfig{Shell: "echo", Input: Object(`{"dry-run":{}}`)}, "input.dry-run", "environment variable"},
		{CommandConfig{Shell: "echo {{x}}", Input: Object(`{"x":{}}`)}, "shell", `allowed: "$x"`},
		{CommandConfig{Command: echo, Stderr: "merged"}, "stderr", "allowed: merge, separate, discard"},
		{CommandConfig{Command: echo, ANSI: "no"}, "ansi", "allowed: strip, keep"},
		{CommandConfig{Command: echo, Output: "bytes"}, "output", "allowed: text, lines"},
		{CommandConfig{Command: echo, Task: "maybe"}, "task", "allowed: optional, required, forbidden"},
		{CommandConfig{Command: echo, Pty: true, Stderr: "separate"}, "stderr", "pty"},
		{CommandConfig{Command: echo, Progress: "("}, "progress", "missing closing )"},
		{CommandConfig{Command: echo, Progress: "x"}, "progress", "0 groups"},
		{CommandConfig{Command: echo, Timeout: -1}, "timeout", "negative"},
		{CommandConfig{Command: echo, OkExitCodes: []int{256}}, "okExitCodes[0]", "0 to 255"},
		{CommandConfig{Command: echo, MaxConcurrent: -1}, "maxConcurrent", "negative"},
		{CommandConfig{Command: echo, MaxResult: new(Size(2 << 20))}, "maxResult", "1KiB to 960KiB"},
		{CommandConfig{Command: echo, MaxResult: new(Size(0))}, "maxResult", "1KiB to 960KiB"},
		{CommandConfig{Command: echo, MaxOutput: new(Size(0))}, "maxOutput", "1 or more"},
		{CommandConfig{Command: echo, Env: map[string]string{"A=B": ""}}, "env", "no name for a variable"},
		{CommandConfig{Command: echo, Env: map[string]string{"A": "x\x00y"}}, "env.A", "NUL"},
		{CommandConfig{Command: []string{"echo", "\x00"}}, "command[1]", "NUL"},
		{CommandConfig{Shell: "echo \x00"}, "shell", "NUL"},
	} {
		_, err := NewCommand("t", test.config, Environment{})
		var ce *ConfigError
		if !errors.As(err, &ce) || ce.Key != test.key || !strings.Contains(err.Error(), test.problem) {
			t.Errorf("%+v:\nerror %v, want key %q and %q", test.config, err, test.key, test.problem)
		}
	}
}

func TestUnits(t *testing.T) {
	for text, want := range map[string]Size{"0": 0, "17": 17, "64KiB": 64 << 10, "16 MiB": 16 << 20, "1GiB": 1 << 30, "5B": 5} {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "KiB", "1.5MiB", "-1", "1KB", "9223372036854775807KiB", "99999999999999999999"} {
		if got, err := ParseSize(text); err == nil {
			t.Errorf("%s: %d, want an error", text, got)
		}
	}
	for size, want := range map[Size]string{0: "0", 17: "17", 64 << 10: "64KiB", 3 << 20: "3MiB", 1<<20 + 1: "1048577"} {
		if got := size.String(); got != want {
			t.Errorf("%d: %s", size, got)
		}
	}
	for d, want := range map[time.Duration]string{30 * time.Minute: "30m", time.Hour: "1h", 90 * time.Second: "1m30s", 10 * time.Second: "10s", 0: "0s", 100 * time.Minute: "1h40m"} {
		if got := Duration(d).String(); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

func TestDurationNeedsAUnit(t *testing.T) {
	var d Duration
	for _, text := range []string{"30", "soon", ""} {
		if err := d.UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), "allowed: ") {
			t.Errorf("%q: error %v", text, err)
		}
	}
	if err := d.UnmarshalText([]byte("1h30m")); err != nil || time.Duration(d) != 90*time.Minute {
		t.Errorf("%v, %v", d, err)
	}
}
