package process

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// commandInterpreter is the program that runs scripts and batch files, cmd.exe.
func commandInterpreter() string {
	return filepath.Join(os.Getenv("SystemRoot"), "System32", "cmd.exe")
}

// Shell returns the argv that runs a script by cmd.exe, without the start commands of the registry (/d), and
// with !NAME! for the value of a variable (/v:on). Values are filled in after the line was read, so nothing
// in them is read as part of the script.
func Shell(script string) []string {
	return []string{commandInterpreter(), "/d", "/v:on", "/s", "/c", strings.TrimRight(script, "\r\n")}
}

// scriptLine returns the command line of Shell. With /s, cmd.exe takes everything between the first quote and
// the last as it is.
func scriptLine(argv []string) string {
	last := len(argv) - 1
	return `"` + argv[0] + `" ` + strings.Join(argv[1:last], " ") + ` "` + argv[last] + `"`
}

// isBatch reports whether a program is a script of cmd.exe, as npm and npx are.
func isBatch(path string) bool {
	switch strings.ToLower(filepath.Ext(path)) {
	case ".bat", ".cmd":
		return true
	}
	return false
}

// batchLine returns the command line that runs a batch file. cmd.exe reads the line to start the file, and
// would interpret & or % in an argument (CVE-2024-24576). So everything but plain characters is quoted,
// quotes are doubled, and each % is followed by a variable that is always empty, so that no other one is
// filled in.
func batchLine(path string, args []string) (string, error) {
	if strings.Contains(path, `"`) || strings.HasSuffix(path, `\`) {
		return "", errors.New("a batch file whose name holds a quote or ends with a backslash cannot be started")
	}
	line := `cmd.exe /e:ON /v:OFF /d /c ""` + path + `"`
	for _, arg := range args {
		if strings.ContainsAny(arg, "\r\n\x00") {
			return "", errors.New("an argument with a line end cannot be given to a batch file; start the " +
				"program that it starts")
		}
		line += " " + batchArgument(arg)
	}
	return line + `"`, nil
}

func batchArgument(arg string) string {
	const plain = `abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789#$*+-./:?@\_`
	if arg != "" && strings.Trim(arg, plain) == "" && !strings.HasSuffix(arg, `\`) {
		return arg
	}
	quoted, backslashes := `"`, 0
	for _, c := range arg {
		switch c {
		case '\\':
			backslashes++
		case '"':
			quoted += strings.Repeat(`\`, backslashes) + `"`
		case '%':
			quoted += "%%cd:~,"
		}
		if c != '\\' {
			backslashes = 0
		}
		quoted += string(c)
	}
	return quoted + strings.Repeat(`\`, backslashes) + `"`
}
