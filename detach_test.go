package main

import (
	"os"
	"testing"
)

// stateDir is a directory for tasks. It is removed after all tests: a supervisor may still be closing its files in it.
func stateDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp(built.dir, "state")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
