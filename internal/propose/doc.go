// Package propose reads the manifest files of a directory and proposes a runnel.yaml with the tools that its
// maintainers would expect. It runs nothing, and leaves out what it does not understand.
//
//	directory ─▶ sources (make.go, node.go, ...) ─▶ tools ─▶ Propose: names, order ─▶ YAML
//	                          │
//	                          └─ judge (judge.go): how long may it take, must the user confirm it, does it never end?
//
// Goroutines: none. Locks: none.
//
//	source    a kind of manifest file, such as a Makefile or package.json
//	runner    the program that runs a source's tools, such as make or npm
//
// Where things stand:
//
//	what deploys or deletes needs confirmation    judge (judge.go)
//	what is left out is listed, with the reason   Propose (propose.go), neverEnds (judge.go)
//	progress in the output of known programs      progressOf (judge.go)
//	what gets a sandbox, and with which caches    Tool.confine (tool.go)
//	a tool becomes YAML                           Tool.write (tool.go)
package propose
