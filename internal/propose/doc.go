// Package propose reads the manifest files of a directory and proposes a runnel.yaml: tools that its maintainers would expect. It runs
// nothing, and what it does not understand it leaves out.
//
//	directory ─▶ sources (make.go, node.go, ...) ─▶ tools ─▶ Propose: names, order ─▶ YAML
//	                          │
//	                          └─ judge (judge.go): how long may it take, must the user be asked, is it a server that never ends?
//
// Goroutines: none. Locks: none.
//
//	source    a kind of manifest file: a Makefile, package.json and so on
//	runner    the program that a source's tools begin with: make, npm, just
//
// Where things stand:
//
//	what deploys or deletes, and so asks first    judge (judge.go)
//	progress in the output of known programs      progressOf (judge.go)
//	how a file is written                         Tool.write (tool.go)
package propose
