// Package processtest is what tests of child processes share: a test binary that is also its own children,
// and a check that none is left. Its code is for Unix.
package processtest
