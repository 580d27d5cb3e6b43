//go:build unix

package command

import (
	"strings"
	"testing"

	"runnel/tools/config"
)

// The result of a command on a terminal is what stands there in the end, also of lines above the last, while
// the log has all that it printed. Each call is made twice.
func TestResultOfATerminal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, script, result, log string }{
		{"spinner", `printf '\033[?25l\033[1G- Installing'; printf '\033[1G\033[0K\\ Installing\033[1G\033[0K+ Done\nafter\n\033[?25h'`,
			"+ Done\nafter\n", "\r- Installing\r\\ Installing\r+ Done\nafter\n"},
		{"lines above", `printf '. one\n. two\n'; printf '\033[2A\033[2K+ one\n\033[2K+ two\n'`,
			"+ one\n+ two\n", ""},
		{"backspaces", `printf '50%%\b\b\b60%%\n'`, "60%\n", ""},
		{"full screen", `printf 'before\n\033[?1049h\033[2J\033[Heditor\033[?1049lafter\n'`,
			"before\nafter\n", ""},
		{"a long line", `printf '%0300d\n' 7`, strings.Repeat("0", 299) + "7\n", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			tool := mustCommand(t, config.Command{Shell: c.script, Pty: true})
			for range 2 {
				result, _, r := call(t, tool, `{}`)
				if got := contentText(t, result.Content[0]); got != c.result {
					t.Errorf("the result is %q, want %q", got, c.result)
				}
				if got := r.text(); c.log != "" && got != c.log {
					t.Errorf("the log has %q, want %q", got, c.log)
				}
			}
		})
	}
}
