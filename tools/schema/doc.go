// Package schema checks JSON values against JSON Schemas (drafts 2020-12 and 07) that strangers may have
// written. A library validates and words the errors. This package adds the place of an error, and bounds the
// cost of a check.
//
//	New ─▶ Check(arguments) ─▶ compile, once ─▶ cost: too much is refused ─▶ the library ─▶ its words, and the place
//
// It has no goroutines. Any number of goroutines may use a Checker.
//
// Where things stand:
//
//	a schema itself is checked                 Checker.Compile (schema.go)
//	the cost of a schema is bounded            tree.checkCost (cost.go)
//	the cost of checking a value is bounded    compiled.check (compiled.go), with the effort of cost.go
package schema
