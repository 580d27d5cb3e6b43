// Package reading shows a model what tasks have written and how they ended: what a session has not been shown
// yet (News), what follows a position (Page), the lines that match (Search), or the screen of a terminal
// (OnScreen).
//
//	log ─ shapeLog ─▶ a Sink of package text ─┐
//	result ─ writeEnding ─────────────────────┴─▶ a Reading ─▶ the answer of a tool of package fallback
//
// An answer has room for Reader.Most bytes. Of more, it shows the head and the tail, and says how to read the
// rest; a model that reads page after page reads all of it once. A [Session] remembers up to where each task
// was shown (a Place).
//
// Goroutines: none. Locks: Session.mu, which is never held while a log is read.
package reading
