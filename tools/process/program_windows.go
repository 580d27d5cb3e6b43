package process

import "strings"

// isPath reports whether the name of a program says where it is.
func isPath(name string) bool { return strings.ContainsAny(name, `/\:`) }
