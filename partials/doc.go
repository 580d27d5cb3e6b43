// Package partials carries a task's output from the tool that writes it to whoever reads it, while it is written.
//
// A tool appends to its task's [Log]. Everything that leaves is a [Reader] of that log with a position of its
// own: a slow one falls behind and catches up with larger batches, and slows no other. A [Pump] moves what one
// reader reads through a [Dialect] to a [Lane], at a pace. A dialect is a spelling: SEP-2679
// (https://github.com/modelcontextprotocol/modelcontextprotocol/pull/2679) and progress notifications differ in a
// method name, a counter and an end mark. It gives its numbers when a line is written, never before, so nothing
// can be burnt, repeated or out of order.
//
//	tool ─ Append ─▶ Log ◀─ Next ─ Reader ─ Pump ─ Dialect.Encode ─▶ Lane ─▶ output
//
// Goroutines: a Pump has one while it writes and may have to wait for the client, none while it waits for output or for its time; what is appended
// to a quiet log is written by who appends.
package partials
