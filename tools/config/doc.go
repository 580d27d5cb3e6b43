// Package config reads a config file into values, and keeps the places of the values in the file. It knows
// nothing of tools.
//
//	text ─ Parse ─▶ bounds ─▶ the YAML library ─▶ decoder: tree ─▶ Config (structs, by the tag "yaml")
//	                                               └▶ places ─ Locate(path, error) ─▶ FILE:LINE:COL
//	flags, variables ─ Set ─▶ Config, in place of the file's values
//
// Where things stand:
//
//	a limit of a value                       bounds.go
//	a default                                defaults.go, from constants of packages rpc, tasks and partials
//	names of variables in env                base.go; a child gets their values from Environ (tools/process)
//	RUNNEL_ variables that override a file   options.ReadEnvironment, Setup.ReadConfigs (internal/serve)
//
// It has no goroutines. Any number of goroutines may read a Config.
//
//	path   names a value in the file: tools.test.command[2]
//	place  the positions of a key and its value: line and column, from 1
package config
