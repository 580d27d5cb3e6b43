package command

import (
	"runtime"
	"strings"
	"testing"

	"runnel/tools/config"
)

// A value never becomes code, whatever reads it; as an argument of a script it is only text. Words are separated by "|".
func TestNoPlaceholderInCode(t *testing.T) {
	for line, allowed := range map[string]bool{
		"sh|-c|echo {{x}}": false, "bash|-ec|echo {{x}}": false, "/bin/bash|-euo|pipefail|-c|echo {{x}}": false, "bash|-c|-e|echo {{x}}": false,
		"bash|--rcfile|f|-c|echo {{x}}": false, "bash|-O|extglob|-c|echo {{x}}": false, "fish|--command=echo {{x}}": false, "fish|-c|echo {{x}}": false,
		"mksh|-c|echo {{x}}": false, "tcsh|-fc|echo {{x}}": false, "env|A=b|sh|-c|echo {{x}}": false, "timeout|5|nice|-n|3|sh|-c|echo {{x}}": false,
		"sudo|-u|me|bash|-lc|echo {{x}}": false, "busybox|sh|-c|echo {{x}}": false, "find|.|-exec|sh|-c|echo {{x}}|;": false,
		"xargs|-0|sh|-c|echo {{x}}": false, "su|-|me|-c|echo {{x}}": false, "script|-qc|echo {{x}}|/dev/null": false, "ssh|-p|22|host|echo {{x}}": false,
		"python3.12|-c|print({{x}})": false, "python|-W|ignore|-c|print({{x}})": false, "node|-e|f({{x}})": false, "node|-pe|f({{x}})": false, "node|--eval=f({{x}})": false,
		"perl|-ne|print {{x}}": false, "perl|-eprint {{x}}": false, "ruby|-e|puts {{x}}": false, "php|-r|echo {{x}};": false, "deno|eval|f({{x}})": false,
		"awk|-F|:|/{{x}}/": false, "gawk|-v|a=b|/{{x}}/": false, "cmd.exe|/d|/c|echo {{x}}": false, "CMD|/C|echo|a{{x}}": false,
		"pwsh|-NoProfile|-Command|echo {{x}}": false, "powershell|-enc|a{{x}}": false, "powershell|-com|a{{x}}": false, "eval|echo {{x}}": false,
		"sh|-c|{{x}}": false, "bash|-euo|pipefail|-c|{{x}}": false, "env|sh|-c|{{ x }}": false, "ssh|host|{{x}}": false, "ssh|-p|22|me@host|{{x}}": false, "ssh|host|ls|{{x}}": false,
		"cmd|/c|{{x}}": false, "cmd.exe|/d|/s|/c|{{x}}|{{x}}": false, "pwsh|-Command|{{x}}": false, "python|-c|{{x}}": false, "node|-e|{{x}}": false, "awk|{{x}}|file": false, "eval|{{x}}": false,

		`sh|-c|echo "$1"|_|{{x}}`: true, `sh|-c|echo "$1"|_|a={{x}}`: true, "bash|run.sh|-c|a {{x}}": true, "python3|-m|pytest|-c|a={{x}}": true,
		"awk|-v|a={{x}}|{print a}": true, "awk|/x/|{{x}}.txt": true, "awk|-f|prog.awk|{{x}}.txt": true, "node|server.js|--name={{x}}": true,
		"pwsh|-File|a.ps1|-Name={{x}}": true, "grep|-e|a {{x}}": true, "npm|run|test|--|a={{x}}": true, "perl|a.pl|a={{x}}": true,
	} {
		words := strings.Split(line, "|")
		for range 2 {
			_, err := New("t", config.Command{Command: words, Input: config.Object(`{"x":{"type":"string"}}`)}, config.Base{})
			if (err == nil) != allowed {
				t.Errorf("%s: %v", line, err)
			}
		}
	}
}

// A caller sets no variable that means something to the system or to a shell.
func TestShellInputsAreNotSystemVariables(t *testing.T) {
	for name, allowed := range map[string]bool{
		"PATH": false, "HOME": false, "IFS": false, "BASH_ENV": false, "LD_PRELOAD": false, "DYLD_INSERT_LIBRARIES": false, "GIT_SSH_COMMAND": false, "TEMP": false,
		"path": runtime.GOOS != "windows", "temp": runtime.GOOS != "windows", "target": true, "user_id": true, "language": true,
	} {
		for range 2 {
			_, err := New("t", config.Command{Shell: "echo", Input: config.Object(`{"` + name + `":{"type":"string"}}`)}, config.Base{})
			if (err == nil) != allowed || err != nil && !strings.Contains(err.Error(), "the_"+strings.ToLower(name)) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// A value in a question is one printable line, in quotes, and bounded.
func TestQuestionShowsWhatTheModelSaid(t *testing.T) {
	for value, want := range map[string]string{
		"a file": `"a file"`, "x\x1b[2J\u202ey\u200b\n\n": `"x\x1b[2J\u202ey\u200b\n\n"`, `" and nothing else`: `"\" and nothing else"`, "": `""`, "schön": `"schön"`,
		strings.Repeat("a", 16000): `"` + strings.Repeat("a", 200) + `" (and 15800 more bytes)`,
	} {
		for range 2 {
			if got := shown([]string{value}); got != want {
				t.Errorf("%.50q: %s", value, got)
			}
		}
	}
}
