//go:build race

package e2e

// raceFactor is how much more memory the race detector takes: every word has a shadow, every goroutine a history.
const raceFactor = 2
