// Package config reads a config file into values. It knows nothing of tools.
//
//	text ─ Parse ─▶ package strict ─▶ Config, and the places of its values ─ Locate(path, error) ─▶ FILE:LINE:COL
//	flags, variables ─ Set, Override ─▶ Config, in place of the file's values
//
// Where things stand:
//
//	a limit of a value                       bounds.go
//	a default                                defaults.go, from constants of packages rpc, tasks and partials
//	names of variables in env                base.go; a child gets their values from Environ (tools/process)
//	RUNNEL_ variables that override a file   options.ReadEnvironment, Setup.ReadConfigs (internal/serve)
//	what people write instead of a key       pasted.go
//
// It has no goroutines. Any number of goroutines may read a Config.
package config
