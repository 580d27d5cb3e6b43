package text

import "bytes"

// Page is the beginning of a text that is written piece by piece: as much as fits. Reading continues where it
// ends, and nothing is shown twice; a Shaper shows the end of the text instead.
type Page struct {
	Shaper
	End int64 // the position where the text ends; 0 = with what is written
}

// Write implements Sink.
func (p *Page) Write(b []byte) (int, error) {
	n := len(b)
	if p.End > 0 {
		b = b[:max(min(int64(n), p.End-p.pos()), 0)]
	}
	_, _ = p.Shaper.Write(b)
	return n, nil
}

// Insert implements Sink.
func (p *Page) Insert(words string, size int64) {
	if p.End == 0 || p.pos() < p.End {
		p.Shaper.Insert(words, size)
	}
}

// Full implements Sink.
func (p *Page) Full() bool { return p.tooLong && p.out.full || p.End > 0 && p.pos() >= p.End }

// Text returns the page and the position after it. If more follows, cut is true, and the last line is words,
// which must be much shorter than Limit and have no newline.
func (p *Page) Text(words func(next int64) string) (text string, next int64, cut bool) {
	p.flush()
	switch {
	case !p.tooLong:
		text, next = string(p.whole), p.pos()
	case !p.out.full:
		text, next = string(p.out.head.text), p.pos()
	default:
		text, next = p.out.page(p.Limit, p.pos(), words)
		cut = true
	}
	if p.End > 0 {
		next = min(next, p.End)
	}
	return valid(text), next, cut
}

// page returns the head in a size of limit, with words after it, and the position after the head. end is the
// position after the text.
func (e *excerpt) page(limit int, end int64, words func(next int64) string) (text string, next int64) {
	_, room := fitHead([]byte(words(end)+"\n\n"), limit)
	n, _ := fitHead(e.head.text, limit-room)
	head := e.head.text[:n]
	if i := bytes.LastIndexByte(head, '\n') + 1; i > 0 && n-i < min(maxSlack, n/2) {
		head = head[:i]
	}
	next = e.head.at(len(head))
	text = string(head)
	if !bytes.HasSuffix(head, []byte("\n")) {
		text += "\n"
	}
	return text + words(next) + "\n", next
}
