//go:build race

package e2e

// raced reports whether the tests have the race detector.
const raced = true
