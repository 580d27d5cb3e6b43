package command

import (
	"regexp"
	"strings"

	"runnel/tools/config"
)

// inScript returns how a script refers to an argument: see process.Shell.
func inScript(name string) string { return "!" + name + "!" }

// anyCode returns how a tool runs whatever an argument says, written so that it cannot be a mistake.
func anyCode(string) string { return "a batch file as command that runs its argument" }

// checkScript refuses scripts of several lines, of which cmd.exe reads only the first, and %name%: cmd.exe
// fills that in before it parses the line, so the value would become part of the script.
func checkScript(script string, names []string) *config.Error {
	if strings.Contains(strings.TrimRight(script, "\r\n"), "\n") {
		return &config.Error{Key: "shell", Problem: "has several lines, and cmd.exe reads only the first",
			Allowed: "one line, its commands joined by &&, or a batch file as command"}
	}
	for _, name := range names {
		if m := regexp.MustCompile(`(?i)%` + regexp.QuoteMeta(name) + `[%:]`).FindString(script); m != "" {
			return &config.Error{Key: "shell",
				Problem: m + ": cmd.exe would run the value as part of the script", Allowed: inScript(name)}
		}
	}
	return nil
}
