// Package selftest holds the tools that exercise every feature: for people who write clients, for runnel's own tests, and
// for the conformance suite of the specification. They stand for what a developer writes with package tools, and know no more of it.
package selftest
