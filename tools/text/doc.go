// Package text makes of bytes the text that a model reads.
//
//	Write ─▶ lines: a line that was drawn over with \r is its last state
//	           ├─▶ whole: all of it, as long as it fits
//	           └─▶ runs: three and more equal lines are one ─▶ excerpt: head and tail
//
// Sizes count text as it stands in JSON, where a control character takes six bytes and a quote two. Positions count the
// bytes that were written, so they are positions of a task's log where that is what is written.
//
// It has no goroutines and no locks: whoever writes a text owns it.
//
// Where things stand:
//
//	bytes become UTF-8                     Decoder (utf8.go)
//	a line that was drawn over             assembler.write (lines.go)
//	which text is shown whole, which cut   Shaper.Text (shaper.go)
//	head and tail                          excerpt.cut (excerpt.go)
//	the words between them                 Gap.Words (excerpt.go); of a call's result: leftOut (package tools, tool.go)
package text
