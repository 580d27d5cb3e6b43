//go:build unix

package process

import "strings"

// isPath reports whether the name of a program is a path.
func isPath(name string) bool { return strings.Contains(name, "/") }
