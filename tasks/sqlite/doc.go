// Package sqlite keeps tasks in a directory: a SQLite database that several processes use at once.
//
// Goroutines, from the first use of a State to Close: one that writes (writer.go), one that sweeps (sweep.go).
package sqlite
