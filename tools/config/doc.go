// Package config reads a config file into values, and keeps the places where they stand. It knows nothing of tools.
//
//	text ─ Parse ─▶ bounds ─▶ the YAML library ─▶ decoder: tree ─▶ Config (structs, by the tag "yaml")
//	                                               └▶ places, once somebody asks: Locate(path, error) ─▶ FILE:LINE:COL
//	flags, variables ─ Set ─▶ Config, over the file
//
// Where things stand:
//
//	a limit of a value                 bounds.go
//	a default                          defaults.go, of what packages rpc, tasks and partials say
//	names of variables in env          base.go; their values reach a child in Environ (tools/process)
//	RUNNEL_ variables, over the file   options.ReadEnvironment, Setup.ReadConfigs (internal/serve)
//
// It has no goroutines. A Config may be read by any number of them.
//
//	path   where a value stands in the file: tools.test.command[2]
//	place  where its key and itself stand: line and column, from 1
package config
