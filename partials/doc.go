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
// Goroutines: one for each [Pump.Run], which waits for output, for its time or for the client. The log has none: what waits in Append
// and in Wait is woken by whom it waits for.
package partials
