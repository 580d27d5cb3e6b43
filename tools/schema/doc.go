// Package schema checks JSON values with JSON Schemas (drafts 2020-12 and 07), whoever wrote these: what a check costs is bounded.
//
//	New ─▶ Check(arguments) ─▶ shape: most are certainly valid
//	                          └▶ Compile, once ─▶ cost: too much is refused ─▶ the library ─▶ words and place
//
// It has no goroutines; a Schema may be used by any number of them.
package schema
