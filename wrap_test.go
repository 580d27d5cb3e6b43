package main

import (
	"path/filepath"
	"testing"
)

// A server answers through "runnel wrap --" as it does directly, method by method: to the official TypeScript clients of both eras, and to the
// Inspector.
func TestWrappedServerAnswersTheSame(t *testing.T) {
	t.Parallel()
	dir := filepath.Join("testdata", "interop", "wrap")
	npmCI(t, dir)
	for _, args := range [][]string{{"compare.mjs", "2025"}, {"compare.mjs", "2026"}, {"inspector.mjs"}} {
		t.Run(args[0]+" "+args[len(args)-1], func(t *testing.T) { interop(t, dir, "node", args...) })
	}
}
