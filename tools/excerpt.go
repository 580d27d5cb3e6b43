package tools

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

const (
	// minMaxResult leaves room for the line that says what is left out, and something around it.
	minMaxResult = Size(1 << 10)
	// excerptMark is what that line may take.
	excerptMark = 64
	// excerptSlack is how much is given up so that a cut falls between two lines.
	excerptSlack = 2 << 10
)

// excerpt keeps the head and the tail of a text that may be long, in memory of about twice max.
// Sizes count the text as it stands in JSON, where a control character takes six bytes.
type excerpt struct {
	max int // of bytes in JSON

	total    int64 // bytes of text
	head     []byte
	headSize int // in JSON
	tail     []byte
	dropped  bool // something between head and tail is gone
}

func (e *excerpt) add(text []byte) {
	e.total += int64(len(text))
	if len(e.tail) == 0 {
		n, size := fitHead(text, e.max-e.headSize)
		e.head = append(e.head, text[:n]...)
		e.headSize += size
		text = text[n:]
	}
	e.tail = append(e.tail, text...)
	if n := len(e.tail) - e.max; n > e.max {
		e.tail = e.tail[:copy(e.tail, e.tail[n:])]
		e.dropped = true
	}
}

// need is how many bytes of JSON the whole text takes, at most max.
func (e *excerpt) need() int {
	if len(e.tail) > 0 {
		return e.max
	}
	return e.headSize
}

// text returns the whole text if it takes no more than most bytes of JSON, else its head and its tail with a
// line between them. most is at most e.max.
func (e *excerpt) text(most int) (text string, cut bool) {
	if len(e.tail) == 0 && e.headSize <= most {
		return string(e.head), false
	}
	half := (most - excerptMark) / 2
	n, _ := fitHead(e.head, half)
	head := e.head[:n]
	if i := bytes.LastIndexByte(head, '\n') + 1; i > 0 && len(head)-i < excerptSlack {
		head = head[:i]
	}
	tail := e.tail
	if !e.dropped {
		tail = append(append([]byte(nil), e.head[len(head):]...), e.tail...)
	}
	tail = tail[fitTail(tail, half):]
	if i := bytes.IndexByte(tail, '\n') + 1; i < len(tail) && i < excerptSlack {
		tail = tail[i:]
	}
	newline := ""
	if len(head) > 0 && head[len(head)-1] != '\n' {
		newline = "\n"
	}
	left := e.total - int64(len(head)) - int64(len(tail))
	return fmt.Sprintf("%s%s[... %d bytes left out ...]\n%s", head, newline, left, tail), true
}

// fitHead returns how many bytes of valid text, in whole characters, take no more than most bytes in JSON, and how many they take.
func fitHead(text []byte, most int) (n, size int) {
	for n < len(text) {
		w, s := jsonSize(text[n:])
		if size+s > most {
			break
		}
		n += w
		size += s
	}
	return n, size
}

// fitTail returns where the longest end of text begins that takes no more than most bytes in JSON.
func fitTail(text []byte, most int) int {
	n := len(text)
	for size := 0; n > 0; {
		_, w := utf8.DecodeLastRune(text[:n])
		_, s := jsonSize(text[n-w:])
		if size += s; size > most {
			break
		}
		n -= w
	}
	return n
}

// jsonSize returns the width of the first character of text, in bytes, and in bytes of JSON as encoding/json writes it.
func jsonSize(text []byte) (width, size int) {
	switch b := text[0]; {
	case b == '"' || b == '\\' || b == '\n' || b == '\r' || b == '\t' || b == '\b' || b == '\f':
		return 1, 2
	case b < ' ' || b == '<' || b == '>' || b == '&':
		return 1, 6
	case b < utf8.RuneSelf:
		return 1, 1
	}
	r, w := utf8.DecodeRune(text)
	if r == '\u2028' || r == '\u2029' || r == utf8.RuneError {
		return w, 6
	}
	return w, w
}
