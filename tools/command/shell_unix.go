//go:build unix

package command

import "runnel/tools/config"

// inScript is how a script names an argument of the call.
func inScript(name string) string { return `"$` + name + `"` }

// checkScript finds nothing wrong: "$name" is never read as a part of the script.
func checkScript(string, []string) *config.Error { return nil }
