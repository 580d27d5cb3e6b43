// Package partials carries a task's output from the tool that writes it to whoever reads it, while it is written.
//
// A tool appends to its task's [Log]. Everything that leaves is a [Reader] of that log with a position of its
// own: a slow one lags and catches up with larger batches, and slows no other. A [Pump] moves what one
// reader reads through a [Dialect] to a [Lane], at a pace. A dialect is a spelling: SEP-2679
// (https://github.com/modelcontextprotocol/modelcontextprotocol/pull/2679) and progress notifications differ in a
// method name, a counter and an end mark. It gives its numbers when a line is written, never before, so nothing
// can be burnt, repeated or out of order. The client's half is in package tracker.
//
//	tool ─ Append ─▶ Log ─ wakes ─▶ Pump ─ enters ─▶ Lane, which pulls in turn: Reader.Next ─ Dialect.Encode ─▶ output
//	                  └─ Unsaved ─▶ Backing ─ Load ─▶ Reader
//
// Pieces of output have four names:
//
//   - A chunk is what a tool appends: a piece of text, or a content item of MCP. A write is the chunks of one Append that stay together.
//   - A batch is the chunks that a reader reads at once: one notification, at a pace.
//   - A segment is what SEP-1905 gives a number: one content item as the client gets it.
//   - An extent is what a backing keeps in one piece.
//
// Memory holds chunks in blocks, which nobody outside the log sees.
//
// Goroutines: none that stays. What waits in Append and in Wait is woken by whom it waits for; a [Pump] goes on where it is woken, and its
// lines are encoded on the goroutine that writes. One begins when a pump must read from a backing, and ends when it has.
//
// Locks, in the order in which they are taken: Pump.mu, Segments.mu, Log.mu, the lane's own. Nothing waits for the client or for a disk
// under them, but for what SEP-1905 must read again.
//
// Where things stand:
//
//	a tool waits for room, and for slow readers    Log.admit, Log.loses (append.go)
//	a tool waits for its first reader              Log.Expect (reader.go)
//	what memory keeps of a log                     Log.trim, Log.keeps (log.go), Memory.each (memory.go)
//	when a batch goes out, and how much is in it   Pump.rest (pump.go), fill (fill.go)
//	a pump is woken, and no wake is lost           Log.watch (log.go)
//	a dialect's numbers and names                  a file each: sep2679.go, sep1905.go, sep2998.go, pr383.go
//	output ends on the wire                        Pump.write (pump.go)
//	output is handed to a backing                  Log.Unsaved (backing.go)
package partials
