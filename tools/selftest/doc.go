// Package selftest holds the tools that exercise every feature: for people who write clients, for runnel's own tests, and
// for the conformance suite of the specification. They stand for what a developer writes with package tools, and know no more of it.
//
//	selftest.go   echo, stream, sleep, fail and others, which runnel's own tests and benchmarks call
//	fixtures.go   the tools that the conformance suite expects
//	written.go    a tool as a function of its arguments, and what the tools write with
//
// Goroutines: a fixture that asks several questions at once has one for each. It has no locks.
package selftest
