package command

import (
	"regexp"
	"strings"

	"runnel/tools/config"
)

// inScript is how a script names an argument of the call: see process.Shell.
func inScript(name string) string { return "!" + name + "!" }

// checkScript refuses what cmd.exe would not read, and values that it would read as a part of the script: %name% is filled in before a
// line is taken apart.
func checkScript(script string, names []string) *config.Error {
	if strings.Contains(strings.TrimRight(script, "\r\n"), "\n") {
		return &config.Error{Key: "shell", Problem: "has several lines, of which cmd.exe reads the first alone", Allowed: "one line, its commands joined by &&, or a batch file as command"}
	}
	for _, name := range names {
		if m := regexp.MustCompile(`(?i)%` + regexp.QuoteMeta(name) + `[%:]`).FindString(script); m != "" {
			return &config.Error{Key: "shell", Problem: m + ": cmd.exe would run what the value says", Allowed: inScript(name)}
		}
	}
	return nil
}
