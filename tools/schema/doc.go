// Package schema checks JSON values with JSON Schemas (drafts 2020-12 and 07), whoever wrote these. A library does that, and says what
// is wrong; this package finds the place, and bounds what a check costs.
//
//	New ─▶ Check(arguments) ─▶ compile, once ─▶ cost: too much is refused ─▶ the library ─▶ its words, and the place
//
// It has no goroutines; a Checker may be used by any number of them.
//
// Where things stand:
//
//	a schema itself is checked                  Checker.Compile (schema.go)
//	the cost of a schema is bounded             tree.checkCost (cost.go)
//	the cost of a check of a value is bounded   tree.affordable (cost.go)
package schema
