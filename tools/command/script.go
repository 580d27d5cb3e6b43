package command

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// interpreter says which elements of an interpreter's argv are code.
type interpreter struct {
	// Short flags, without the hyphen, whose value is code; in a shell, a cluster of flags that has one of
	// them.
	code  string
	long  []string
	first bool // without such a flag, the first element that is not an option is code
	all   bool // everything is code
	as    string
}

// interpreters are the programs that read code from their arguments. A value in code would be code.
var interpreters = sync.OnceValue(func() map[string]interpreter { // made for a config that has placeholders, not at each start
	return map[string]interpreter{
		"sh": {code: "c"}, "bash": {code: "c"}, "dash": {code: "c"}, "ash": {code: "c"}, "zsh": {code: "c"},
		"ksh": {code: "c"}, "mksh": {code: "c"},
		"tcsh": {code: "c"}, "csh": {code: "c"}, "rbash": {code: "c"}, "yash": {code: "c"},
		"fish":   {code: "cC", long: []string{"--command", "--init-command"}},
		"su":     {code: "c", long: []string{"--command", "--session-command"}},
		"script": {code: "c", long: []string{"--command"}},
		"python": {code: "c"}, "pypy": {code: "c"},
		"node": {code: "ep", long: []string{"--eval", "--print"}},
		"bun":  {code: "ep", long: []string{"--eval", "--print"}},
		"deno": {}, // deno eval: see subcommands
		"perl": {code: "eE"}, "ruby": {code: "e"}, "lua": {code: "e"}, "luajit": {code: "e"},
		"osascript": {code: "e"},
		"php": {code: "rBRE", long: []string{"--run", "--process-begin", "--process-code",
			"--process-end"}},
		"awk": {first: true}, "gawk": {code: "e", long: []string{"--source"}, first: true},
		"mawk": {first: true}, "nawk": {first: true},
		"cmd":        {as: "cmd"},
		"powershell": {as: "powershell"}, "pwsh": {as: "powershell"},
		"eval": {all: true}, "ssh": {as: "ssh"},
	}
})

var version = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[-.]?[0-9][0-9.]*$`) })

// program returns the name of a program without its directory, ".exe" and version: python3.12 is python.
func program(word string) string {
	word = word[strings.LastIndexAny(word, `/\`)+1:]
	word = strings.TrimSuffix(strings.ToLower(filepath.Base(word)), ".exe")
	return version().ReplaceAllString(word, "")
}

// scripts reports which elements of an argv are read as code, by a shell or another interpreter. The
// interpreter may stand anywhere: behind env, sudo or timeout, in find -exec, or as an applet of busybox.
func scripts(argv []string) map[int]bool {
	code := map[int]bool{}
	for i, word := range argv {
		in, ok := interpreters()[program(word)]
		if ok && (i == 0 || !strings.HasPrefix(word, "-")) {
			in.scripts(argv, i+1, code)
		}
		if program(word) == "deno" && i+2 < len(argv) && argv[i+1] == "eval" {
			interpreter{first: true}.scripts(argv, i+2, code)
		}
	}
	return code
}

// scripts adds the elements that the interpreter reads as code, from argv[from] on.
func (in interpreter) scripts(argv []string, from int, code map[int]bool) {
	for i := from; i < len(argv); i++ {
		word := argv[i]
		flag := strings.ToLower(word)
		name, _, joined := strings.Cut(word, "=")
		switch {
		case in.all:
			code[i] = true
		case in.as == "cmd": // everything after /c is one command line
			if flag == "/c" || flag == "/k" || flag == "/r" {
				interpreter{all: true}.scripts(argv, i+1, code)
				return
			}
		case in.as == "powershell":
			// Flags may be shortened; without -File, everything from the first word on is a command.
			command := len(flag) > 1 && (flag[0] == '-' || flag[0] == '/') &&
				(strings.HasPrefix("command", flag[1:]) || strings.HasPrefix("commandwithargs", flag[1:]) ||
					strings.HasPrefix("encodedcommand", flag[1:]) || flag[1:] == "ec" || flag[1:] == "cwa")
			switch {
			case command:
				interpreter{all: true}.scripts(argv, i+1, code)
				return
			case len(flag) > 1 && (flag[0] == '-' || flag[0] == '/') && strings.HasPrefix("file", flag[1:]):
				return
			}
		case in.as == "ssh": // after the host, the words are joined to a command line for a shell
			if strings.HasPrefix(word, "-") {
				if len(word) == 2 && strings.Contains("BbcDEeFIiJLlmOopQRSWw", word[1:]) {
					i++
				}
				continue
			}
			interpreter{all: true}.scripts(argv, i+1, code)
			return
		case slices.Contains(in.long, name):
			if joined {
				code[i] = true
			} else {
				i++
				code[i] = true
			}
		case word == "--":
			if in.first && i+1 < len(argv) {
				code[i+1] = true
			}
			return
		case len(word) > 1 && (word[0] == '-' || word[0] == '+') && !strings.HasPrefix(word, "--"):
			at := strings.IndexAny(word[1:], in.code)
			switch {
			case in.code == "" || at < 0:
				if in.first && len(word) == 2 && strings.Contains("vFf", word[1:]) { // awk -v name=value
					in.first = in.first && word != "-f"
					i++
				}
			case in.shell() || at+2 == len(word):
				// A shell's script is the first word that is not an option: sh -c -e script.
				for i++; in.shell() && i < len(argv) && len(argv[i]) > 1 &&
					(argv[i][0] == '-' || argv[i][0] == '+'); i++ {
					if strings.HasSuffix(argv[i], "o") {
						i++
					}
				}
				code[i] = true
				if in.shell() {
					return
				}
			default: // perl -e'code' in one word, or node -pe code
				code[i] = true
				if i++; strings.ContainsAny(word[len(word)-1:], in.code) {
					code[i] = true
				} else {
					i--
				}
			}
		case in.shell() && i > from && takesWord(argv[i-1]): // -o pipefail
		case strings.HasPrefix(word, "--"):
		case in.first:
			code[i] = true
			return
		case in.shell(): // the file of a script
			return
		}
	}
}

// shell reports whether the script is the first word after all options, and what follows are its arguments.
func (in interpreter) shell() bool { return in.code == "c" && in.long == nil }

// takesWord reports whether an option of a shell or of Python is followed by its value.
func takesWord(option string) bool {
	return option == "--rcfile" || option == "--init-file" ||
		len(option) > 1 && option[1] != '-' && strings.ContainsAny(option[:1], "-+") &&
			strings.HasSuffix(option, "o") || slices.Contains([]string{"-O", "-W", "-X"}, option)
}
