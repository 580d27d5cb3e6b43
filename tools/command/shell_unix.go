//go:build unix

package command

import "runnel/tools/config"

// inScript returns how a script refers to an argument.
func inScript(name string) string { return `"$` + name + `"` }

// checkScript accepts every script: the value of "$name" is never read as part of it.
func checkScript(string, []string) *config.Error { return nil }
