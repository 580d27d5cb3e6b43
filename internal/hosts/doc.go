// Package hosts knows the files where hosts list their MCP servers, and edits such a file as a careful person
// would: it inserts one entry, and every other byte stays.
//
//	Table ─▶ Host.File ─▶ path ─ read ─▶ text ─▶ Change ─▶ write (temporary file, rename)
//	                                      │         ▲
//	                                      ▼         │ checked: the same values as before, and the entry
//	                          format: insert, remove (json.go, toml.go, yaml.go)
//
// Adding an entry is a single insertion. The inserted text is kept in a record, so that it can be removed
// byte for byte. If the host has rewritten its file meanwhile, the entry is found by its structure.
//
// Nothing is written unless the new text has the same values as the old one, with the entry added or removed.
// So a case that a format's code does not know leads to an error, not to a damaged file.
//
// Goroutines: none. Locks: one for all runnels that edit, a file in the directory of records. A file that
// changes after it was read is not replaced.
//
//	host    a program that starts MCP servers, and talks to a model
//	scope   who a file is for: the user, or everybody in one project
//	entry   one server in a host's file, under its name
//	piece   the text that was inserted for an entry
//	record  what uninstall needs to know about an installed entry, such as its piece
//
// Where things stand:
//
//	which file, and in which shape    Table (table.go), with its sources
//	what is refused                   Host.check (edit.go)
//	links, modes, a host that writes  file.go, Change.Apply (change.go)
//	what uninstall needs              record.go
package hosts
