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

// Shell is the argv that runs a script: by cmd.exe, without the commands that the registry may hold for its start (/d), and with !NAME! as
// the value of a variable (/v:on), which is put in when the line has been read, so that nothing in it is read as a part of the script.
func Shell(script string) []string {
	return []string{commandInterpreter(), "/d", "/v:on", "/s", "/c", strings.TrimRight(script, "\r\n")}
}

// scriptLine is the command line of Shell: with /s, cmd.exe takes all between the first quote and the last as it is.
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

// batchLine is the command line that runs a batch file. cmd.exe reads it once to start the file and would take & or % in an argument for
// its own (CVE-2024-24576): so all but plain characters are quoted, a quote is doubled, and a variable that is always empty is put after
// each %, so that none other is filled in.
func batchLine(path string, args []string) (string, error) {
	if strings.Contains(path, `"`) || strings.HasSuffix(path, `\`) {
		return "", errors.New("a batch file whose name holds a quote or ends with a backslash cannot be started")
	}
	line := `cmd.exe /e:ON /v:OFF /d /c ""` + path + `"`
	for _, arg := range args {
		if strings.ContainsAny(arg, "\r\n\x00") {
			return "", errors.New("an argument with a line end cannot be given to a batch file; start the program that it starts")
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
