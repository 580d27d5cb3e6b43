// Package selftest has tools that exercise every feature: for people who write clients, for runnel's own
// tests, and for the conformance suite of the specification. It uses package tools only as any other
// developer would.
//
//	selftest.go   how a tool is made from a function, and how it waits; echo, stream, sleep, fail and others, which
//	              runnel's own tests and benchmarks call
//	fixtures.go   the tools that the conformance suite expects
//
// Goroutines: a fixture that asks several questions at once has one for each. It has no locks.
package selftest
