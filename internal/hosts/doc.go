// Package hosts knows where the programs that start MCP servers keep their list of them, and edits that list as a careful person would:
// one entry is put in, and every other byte stays.
//
//	Table ─▶ Host.File ─▶ path ─ read ─▶ text ─▶ Change ─▶ write (temporary file, rename)
//	                                      │         ▲
//	                                      ▼         │ checked: the same values as before, and the entry
//	                          format: insert, remove (json.go, toml.go, yaml.go)
//
// An edit that puts an entry in is a single insertion. What was inserted is kept in a record, together with the file as it was, so that
// the entry can be taken out byte for byte. Where the host has rewritten its file meanwhile, the entry is found by its structure.
//
// Nothing is written unless the values of the new text are those of the old one with the entry added or removed: a rule that is
// missing in a format makes an error, not a damaged file.
//
// Goroutines: none. Locks: one for all runnels that edit, a file in the directory of records. A file that changes between being read and
// being replaced is left alone.
//
//	host    a program that starts MCP servers, and talks to a model
//	scope   for whom a file counts: the user, or everybody in one project
//	entry   what a host's file says of one server, by its name
//	piece   the text that was inserted for an entry
//	record  what is known of an installed entry: its piece, and the file as it was before
//
// Where things stand:
//
//	which file, and in which shape    Table (table.go), with its sources
//	what is refused                   check (edit.go)
//	links, modes, atomic writes       file.go
//	what uninstall goes by            record.go
package hosts
