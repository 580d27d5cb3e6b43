package process

import (
	"context"
	"os"
	"strings"
)

// await waits for a child.
func await(child *os.Process) (*os.ProcessState, error) { return child.Wait() }

// SealInherited does nothing: a child only gets the files that are meant for it.
func SealInherited() {}

// restoreSignals does nothing: a child inherits none.
func restoreSignals() {}

// marked finds nothing: a job shows what is left of it.
func marked(string, int) []int { return nil }

// CollectOrphans does nothing: nobody has to wait for a process.
func CollectOrphans(context.Context) {}

// variableKey returns the same key for all names of a variable: their case does not matter.
func variableKey(name string) string { return strings.ToUpper(name) }

// hidesInput reports false: there are no terminals.
func hidesInput(*os.File) (hides, keys bool) { return false, false }
