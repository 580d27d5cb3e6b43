// Package text turns output into text that a model reads.
//
//	Write ─▶ lines: of a line that is overwritten with \r, the last state
//	           ├─▶ whole: the whole text, as long as it fits
//	           └─▶ runs: three or more equal lines become one ─▶ excerpt: head and tail, or a page
//
// Sizes are those of text in JSON, where a control character takes six bytes and a quote two. Positions count
// the bytes that were written: if a task's log is written, they are positions in it.
//
// It has no goroutines and no locks. A value belongs to the goroutine that writes to it.
//
// Where things stand:
//
//	bytes become UTF-8                  Decoder (decoder.go)
//	a line that is overwritten          assembler.write (lines.go)
//	a text is shown whole, or cut       Shaper.Text (shaper.go)
//	head and tail                       excerpt.cut (excerpt.go)
//	the beginning, page by page         Page.Text (page.go)
//	the line between them               Gap.Words (excerpt.go); in the result of a call: leftOut (package tools, tool.go)
//	its words, and cuts in any text     package shorten
package text
