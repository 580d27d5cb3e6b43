package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Spaced returns a warning about words that look like placeholders with a blank in the name, "" if there are none. They are passed on unchanged,
// since they may be meant for another program.
func (c *Config) Spaced() string {
	spaced := regexp.MustCompile(`\{\{\s*[A-Za-z_][\w-]*(\s+[A-Za-z_][\w-]*)+\s*\}\}`)
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(c.Tools)) {
		for n, word := range c.Tools[name].Command {
			if found := spaced.FindString(word); found != "" {
				lines = append(lines, c.Locate(Join("tools", name), &Error{Key: fmt.Sprintf("command[%d]", n),
					Problem: fmt.Sprintf("%q goes to the command as it is", found), Allowed: "a placeholder's name has letters, digits, _ and -"}).Error())
			}
		}
	}
	return strings.Join(lines, "\n")
}
