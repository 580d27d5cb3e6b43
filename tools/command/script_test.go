package command

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"runnel/tools/config"
	"runnel/tools/inputs"
)

// A value never becomes code, whatever reads it; as an argument of a script it is only text. Words are
// separated by "|".
func TestNoPlaceholderInCode(t *testing.T) {
	for line, allowed := range map[string]bool{
		"sh|-c|echo {{x}}": false, "bash|-ec|echo {{x}}": false,
		"/bin/bash|-euo|pipefail|-c|echo {{x}}": false, "bash|-c|-e|echo {{x}}": false,
		"bash|--rcfile|f|-c|echo {{x}}": false, "bash|-O|extglob|-c|echo {{x}}": false,
		"fish|--command=echo {{x}}": false, "fish|-c|echo {{x}}": false,
		"mksh|-c|echo {{x}}": false, "tcsh|-fc|echo {{x}}": false, "env|A=b|sh|-c|echo {{x}}": false,
		"timeout|5|nice|-n|3|sh|-c|echo {{x}}": false,
		"sudo|-u|me|bash|-lc|echo {{x}}":       false, "busybox|sh|-c|echo {{x}}": false,
		"find|.|-exec|sh|-c|echo {{x}}|;": false,
		"xargs|-0|sh|-c|echo {{x}}":       false, "su|-|me|-c|echo {{x}}": false,
		"script|-qc|echo {{x}}|/dev/null": false, "ssh|-p|22|host|echo {{x}}": false,
		"python3.12|-c|print({{x}})": false, "python|-W|ignore|-c|print({{x}})": false,
		"node|-e|f({{x}})": false, "node|-pe|f({{x}})": false, "node|--eval=f({{x}})": false,
		"perl|-ne|print {{x}}": false, "perl|-eprint {{x}}": false, "ruby|-e|puts {{x}}": false,
		"php|-r|echo {{x}};": false, "deno|eval|f({{x}})": false,
		"awk|-F|:|/{{x}}/": false, "gawk|-v|a=b|/{{x}}/": false, "cmd.exe|/d|/c|echo {{x}}": false,
		"CMD|/C|echo|a{{x}}":                  false,
		"pwsh|-NoProfile|-Command|echo {{x}}": false, "powershell|-enc|a{{x}}": false,
		"powershell|-com|a{{x}}": false, "eval|echo {{x}}": false,
		"sh|-c|{{x}}": false, "bash|-euo|pipefail|-c|{{x}}": false, "env|sh|-c|{{ x }}": false,
		"ssh|host|{{x}}": false, "ssh|-p|22|me@host|{{x}}": false, "ssh|host|ls|{{x}}": false,
		"cmd|/c|{{x}}": false, "cmd.exe|/d|/s|/c|{{x}}|{{x}}": false, "pwsh|-Command|{{x}}": false,
		"python|-c|{{x}}": false, "node|-e|{{x}}": false, "awk|{{x}}|file": false, "eval|{{x}}": false,

		`sh|-c|echo "$1"|_|{{x}}`: true, `sh|-c|echo "$1"|_|a={{x}}`: true, "bash|run.sh|-c|a {{x}}": true,
		"python3|-m|pytest|-c|a={{x}}": true,
		"awk|-v|a={{x}}|{print a}":     true, "awk|/x/|{{x}}.txt": true, "awk|-f|prog.awk|{{x}}.txt": true,
		"node|server.js|--name={{x}}":  true,
		"pwsh|-File|a.ps1|-Name={{x}}": true, "grep|-e|a {{x}}": true, "npm|run|test|--|a={{x}}": true,
		"perl|a.pl|a={{x}}": true,
	} {
		words := strings.Split(line, "|")
		for range 2 {
			_, err := New("t", config.Command{Command: words,
				Input: config.Object(`{"x":{"type":"string"}}`)}, config.Base{})
			if (err == nil) != allowed {
				t.Errorf("%s: %v", line, err)
			}
		}
	}
}

// What a caller sends is no option, unless the config says so. Words are separated by "|"; x is text, n a
// number, l texts, e one of two words.
func TestArgumentIsNoOption(t *testing.T) {
	const (
		input  = `{"x":{"type":"string","default":"-fine"},"n":{"type":"number"},"l":{"type":"array","items":{"type":"string"}},"e":{"type":"string","enum":["-a","b"]},"o":{"type":"string"}}`
		option = "-oProxyCommand=id"
	)
	for _, test := range []struct{ line, args, refused string }{
		{"ssh|{{x}}", `{"x":"` + option + `"}`, "x"},
		{"git|fetch|{{l}}", `{"l":["origin","--upload-pack=id"]}`, "l"},
		{"rsync|-a|{{x}}:/srv", `{"x":"-e sh"}`, "x"},
		{"tar|{{o}}{{x}}", `{"o":"","x":"-Iid"}`, "o"},
		{"tar|{{o}}-{{x}}", `{"o":"","x":"Iid"}`, "o"},
		{"sudo|--|ssh|{{x}}", `{"x":"` + option + `"}`, "x"},
		{"find|--|{{x}}|-name|a", `{"x":"-delete"}`, "x"},
		{"grep|-e|{{o}}|f", `{"o":"-x"}`, "o"},

		// The config's own default.
		{"ssh|{{x}}", `{"x":"host"}`, ""}, {"ssh|{{x}}", `{}`, ""}, {"ssh|{{x}}", `{"x":"-fine"}`, ""},
		{"ssh|--|{{x}}", `{"x":"` + option + `"}`, ""},
		{"git|log|--end-of-options|{{o}}|{{x}}", `{"o":"-a","x":"` + option + `"}`, ""},
		{"npm|run|test|--|{{l}}", `{"l":["-v","-x"]}`, ""},
		{"grep|-e{{o}}|f", `{"o":"-x"}`, ""}, {"go|test|-run={{o}}", `{"o":"-x"}`, ""},
		{"head|-n|{{n}}|f", `{"n":-5}`, ""}, {"ls|{{e}}", `{"e":"-a"}`, ""}, {"cat|{{o}}", `{"o":"-"}`, ""},
	} {
		c, err := New("t", config.Command{Command: strings.Split(test.line, "|"),
			Input: config.Object(input)}, config.Base{})
		if err != nil {
			t.Fatal(err)
		}
		allowed, err := New("t", config.Command{Command: strings.Split(test.line, "|"),
			Input: config.Object(input), Options: []string{"x", "l", "o"}}, config.Base{})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			for _, c := range []*Command{c, allowed} {
				args, err := c.arguments(json.RawMessage(test.args))
				if err != nil {
					t.Fatal(err)
				}
				_, err = expand(c.in, c.argv, args)
				if c == allowed && err != nil || c != allowed && (err != nil) != (test.refused != "") ||
					err != nil && !strings.Contains(err.Error(), "options: ["+test.refused+"]") {
					t.Errorf("%s with %s: %v", test.line, test.args, err)
				}
			}
		}
	}
	_, err := New("t", config.Command{Command: []string{"ssh", "{{x}}"}, Input: config.Object(input),
		Options: []string{"y"}}, config.Base{})
	if err == nil || !strings.Contains(err.Error(), `options[0]: "y" names no input`) {
		t.Errorf("options of an unknown input: %v", err)
	}
}

// A caller sets no variable that means something to the system or to a shell.
func TestShellInputsAreNotSystemVariables(t *testing.T) {
	for name, allowed := range map[string]bool{
		"PATH": false, "HOME": false, "IFS": false, "BASH_ENV": false, "LD_PRELOAD": false,
		"DYLD_INSERT_LIBRARIES": false, "GIT_SSH_COMMAND": false, "TEMP": false,
		"path": runtime.GOOS != "windows", "temp": runtime.GOOS != "windows", "target": true, "user_id": true,
		"language": true,
	} {
		for range 2 {
			_, err := New("t", config.Command{Shell: "echo",
				Input: config.Object(`{"` + name + `":{"type":"string"}}`)}, config.Base{})
			if (err == nil) != allowed || err != nil &&
				!strings.Contains(err.Error(), "the_"+strings.ToLower(name)) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// A value in a question is one printable line, in quotes, and bounded.
func TestQuestionShowsWhatTheModelSaid(t *testing.T) {
	for value, want := range map[string]string{
		"a file": `"a file"`, "x\x1b[2J\u202ey\u200b\n\n": `"x\x1b[2J\u202ey\u200b\n\n"`,
		`" and nothing else`: `"\" and nothing else"`, "": `""`, "schön": `"schön"`,
		strings.Repeat("a", 16000): `"` + strings.Repeat("a", 200) + `" (and 15800 more bytes)`,
	} {
		for range 2 {
			if got := (inputs.Argument{Values: []string{value}}).Quoted(); got != want {
				t.Errorf("%.50q: %s", value, got)
			}
		}
	}
}
