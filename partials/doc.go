// Package partials carries a task's output, while it is written, from the tool that writes it to everyone who
// reads it.
//
// A tool appends to its task's [Log]. Everything that leaves the process is read by a [Reader] with its own
// position in that log: a slow reader lags, and catches up with larger batches. With a [Backing] it slows no
// other; without one the tool waits for the slowest from LogOptions.MaxPending on. [Deliver] moves what one
// reader reads through a [Dialect] to a [Lane], at a given pace. A dialect is a spelling: SEP-2679
// (https://github.com/modelcontextprotocol/modelcontextprotocol/pull/2679) and progress notifications, for
// example, differ in a method name, a counter and an end mark. A dialect numbers a line when it is written,
// never before, so no number can be skipped, repeated or out of order (SEP-1905 numbers segments of the
// output instead, when they are first sent or stored). The client's half is in package tracker.
//
//	tool ─ Append ─▶ Log ─ wakes ─▶ Deliver ─ waits for its turn ─▶ Lane: Reader.Next ─ Dialect.Encode ─▶ output
//	                  └─ Unsaved ─▶ Backing ─ Load ─▶ Reader
//
// Pieces of output have four names:
//
//   - A chunk is what a tool appends: a piece of text, or an item, which is one content block of MCP. A write is the chunks of one Append;
//     they stay together.
//   - A batch is the chunks that a reader reads at once. With a pace it becomes one notification.
//   - A segment is what SEP-1905 numbers: one item as the client gets it. Adjacent text of one stream is one item then.
//   - An extent is a part of the log that a backing keeps in one piece.
//
// Memory holds chunks in blocks, which are not visible outside the log.
//
// Goroutines: the package starts none. Append, Wait and Deliver run on their callers' goroutines; lines are
// encoded on the goroutine that writes them.
//
// Locks, in the order in which they are taken: Gate.mu, Segments.mu, Log.mu, the lane's own. Nothing waits
// for the client or the disk while it holds one of them, except where SEP-1905 must read stored output again.
//
// Where things stand:
//
//	a tool waits for room, and for slow readers    Log.Append, Log.hasRoom (log.go)
//	a tool waits for its first reader              Log.Expect (reader.go)
//	what memory keeps of a log                     Log.trim, Log.retention (log.go), Memory.share (backing.go)
//	when a batch goes out, and how much is in it   Deliver (deliver.go), fill (batch.go)
//	a reader is woken                              Log.await, Log.wakeReaders (log.go)
//	which dialect a call gets                      Choose of package feed
//	a line gets its number (seq)                   Dialect.Encode; SEP-1905's segments: Segments.Number (segments.go)
//	a dialect's numbers and names                  a file each: sep2679.go, sep1905.go, sep2998.go, pr383.go
//	output ends on the wire                        Dialect.End, called by Deliver
//	output is handed to a backing                  Log.Unsaved (backing.go)
package partials
