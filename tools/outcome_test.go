package tools

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestLastLines(t *testing.T) {
	for _, test := range []struct {
		in   string
		max  int
		want string
	}{
		{"", 10, ""},
		{"a\nb\n\n", 10, "a\nb"},
		{"aaaa\nbbbb\ncccc\n", 9, "bbbb\ncccc"},
		{"aaaa\nbbbb\ncccc\n", 8, "cccc"},
		{"ééééé", 5, "éé"},
		{" 1%\r 2%\r 3%\r\nok\r\n", 20, " 3%\nok"},
		{"\x1b[1mbold\x1b[0m\n", 20, "bold"},
		{"\xa9cut\n", 20, "cut"},
	} {
		if got := lastLines([]byte(test.in), test.max); got != test.want {
			t.Errorf("%q in %d: %q, want %q", test.in, test.max, got, test.want)
		}
	}
}

func TestStatusMessageIsBounded(t *testing.T) {
	o := &outcome{verdict: "timed out after 30m", last: []byte(strings.Repeat("x", 5000))}
	if got := o.statusMessage(); len(got) != maxStatusMessage || !strings.HasPrefix(got, "timed out after 30m\nxxx") {
		t.Errorf("%d bytes: %.40q", len(got), got)
	}
}

func TestResultOfAGoodEnd(t *testing.T) {
	c := mustCommand(t, CommandConfig{Command: []string{"printf", "out\nno newline"}})
	result, o, r := call(t, c, `{}`)
	if len(result.Content) != 1 || contentText(t, result.Content[0]) != "out\nno newline" || result.IsError || r.in.status != "" {
		t.Errorf("result %+v, status message %q", result, r.in.status)
	}
	o.DurationMs = 12
	b, _ := json.Marshal(o)
	if want := `{"exitCode":0,"signal":"","durationMs":12,"stdoutBytes":14,"stderrBytes":0,"truncated":false,"timedOut":false}`; string(b) != want {
		t.Errorf("structuredContent %s, want %s", b, want)
	}
}

func TestResultOfABadEnd(t *testing.T) {
	for shell, want := range map[string]struct{ text, structured, status string }{
		"echo oops >&2; exit 2":   {"oops\nexit code 2\n", `"exitCode":2,"signal":""`, "exit code 2\noops"},
		"exit 1":                  {"exit code 1\n", `"exitCode":1,"signal":""`, "exit code 1"},
		"printf half; kill -9 $$": {"half\nkilled by SIGKILL\n", `"exitCode":null,"signal":"SIGKILL"`, "killed by SIGKILL\nhalf"},
	} {
		result, _, r := call(t, mustCommand(t, CommandConfig{Shell: shell}), `{}`)
		if got := contentText(t, result.Content[0]); got != want.text || !result.IsError {
			t.Errorf("%s: text %q, isError %v", shell, got, result.IsError)
		}
		if !strings.Contains(string(result.StructuredContent), want.structured) {
			t.Errorf("%s: structuredContent %s", shell, result.StructuredContent)
		}
		if r.in.status != want.status {
			t.Errorf("%s: status message %q", shell, r.in.status)
		}
	}
	result, _, r := call(t, mustCommand(t, CommandConfig{Shell: "exit 7", OkExitCodes: []int{0, 7}}), `{}`)
	if result.IsError || r.in.status != "" || contentText(t, result.Content[0]) != "" {
		t.Errorf("exit code 7 is ok, but %+v", result)
	}
}

func TestStderr(t *testing.T) {
	shell := "echo 1; echo 2 >&2; echo 3"
	for mode, want := range map[string]struct {
		content        []string
		stdout, stderr int64
	}{
		"merge":    {[]string{"1\n2\n3\n"}, 6, 0},
		"separate": {[]string{"1\n3\n", "2\n"}, 4, 2},
		"discard":  {[]string{"1\n3\n"}, 4, 0},
	} {
		result, o, r := call(t, mustCommand(t, CommandConfig{Shell: shell, Stderr: mode}), `{}`)
		if len(result.Content) != len(want.content) || o.StdoutBytes != want.stdout || o.StderrBytes != want.stderr {
			t.Errorf("%s: %s, %+v", mode, result.Content, o)
			continue
		}
		for i, c := range result.Content {
			if got := contentText(t, c); got != want.content[i] {
				t.Errorf("%s: content %d is %q", mode, i, got)
			}
		}
		if mode == "separate" && !strings.Contains(string(result.Content[1]), `"_meta":{"runnel/stream":"stderr"}`) {
			t.Errorf("stderr content %s", result.Content[1])
		}
		for _, c := range r.chunks {
			if (string(c.Data) == "2\n" && mode == "separate") != (c.Stream == 1) {
				t.Errorf("%s: chunk %q of stream %d", mode, c.Data, c.Stream)
			}
		}
	}
}

func TestHugeOutput(t *testing.T) {
	const size = 6_888_896
	config := CommandConfig{Shell: "seq 1 1000000", MaxOutput: new(Size(1 << 20)), MaxResult: new(Size(8 << 10))}
	result, o, r := call(t, mustCommand(t, config), `{}`)
	if o.StdoutBytes != size || !o.Truncated || result.IsError {
		t.Errorf("outcome %+v", o)
	}
	// A client that keeps up sees all of it; the store keeps the head and the tail.
	if n := len(r.text()); n != size {
		t.Errorf("%d bytes streamed", n)
	}
	text := contentText(t, result.Content[0])
	if len(text) > 8<<10 || len(text) < 4<<10 || !strings.Contains(text, " bytes left out ...]\n") {
		t.Errorf("result of %d bytes", len(text))
	}
}

func TestBothStreamsShareTheResult(t *testing.T) {
	c := mustCommand(t, CommandConfig{Shell: `seq 1 20000; seq 1 20000 >&2`, Stderr: "separate", MaxResult: new(Size(4096))})
	result, o, _ := call(t, c, `{}`)
	out, err := contentText(t, result.Content[0]), contentText(t, result.Content[1])
	a, _ := json.Marshal(out)
	b, _ := json.Marshal(err)
	if n := len(a) + len(b) - 4; n > 4096 || len(out) < 1000 || len(err) < 1000 || !o.Truncated {
		t.Errorf("%d and %d bytes, %d of JSON", len(out), len(err), n)
	}
}

func TestBinaryOutput(t *testing.T) {
	c := mustCommand(t, CommandConfig{Command: []string{"printf", `\377\000\303\251\303`}})
	result, o, r := call(t, c, `{}`)
	want := "\uFFFD\x00é\uFFFD"
	if got := contentText(t, result.Content[0]); got != want || r.text() != want || o.StdoutBytes != 5 {
		t.Errorf("text %q, streamed %q, %+v", got, r.text(), o)
	}
}

func TestProgressOfACommand(t *testing.T) {
	c := mustCommand(t, CommandConfig{Shell: `printf '[1/2] one\n[2/2] two\n'`, Progress: `\[(\d+)/(\d+)\]`})
	if c.marks() == nil {
		t.Fatal("no marks")
	}
	if _, o, _ := call(t, c, `{}`); *o.ExitCode != 0 {
		t.Errorf("outcome %+v", o)
	}
}

func TestDuration(t *testing.T) {
	c := mustCommand(t, CommandConfig{Shell: "sleep 0.2"})
	if _, o, _ := call(t, c, `{}`); time.Duration(o.DurationMs)*time.Millisecond < 200*time.Millisecond {
		t.Errorf("%d ms", o.DurationMs)
	}
}
