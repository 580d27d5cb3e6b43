package text

import (
	"bytes"
	"strconv"
)

// Encoder writes what a terminal is sent as the log of a terminal keeps it: all sequences in the form of
// LogColor, so that WithoutColors leaves the text alone, and lines that end with \n.
//
//	ESC [ 2 J    U+009B 2 J
//	ESC ( B      U+009B 40;66 SP p    a sequence without parameters: its bytes, as private use (ECMA-48, 5.4)
//	\r\n         \n
//	\n alone     U+009B 68 SP p       ESC D, which moves down and stays in its column
//
// Titles and other strings are left out, and so are orders to the window. Decode is the way back. The zero
// value is ready to use; the text is valid UTF-8.
type Encoder struct {
	state    stripState
	sequence []byte // what was read of one that is not complete, after its introducer
	cr       bool   // a \r was read; the next byte decides about it
	buf      []byte
}

// reportSizes asks the terminal to type its size whenever that changes (mode 2048).
const reportSizes = "?2048h"

// maxSequence bounds a sequence, in bytes. A longer one is left out.
const maxSequence = 256

// Encode takes the next piece. The result is valid until the next call. A sequence that is cut off waits for
// its rest.
func (e *Encoder) Encode(p []byte) []byte {
	e.buf = e.buf[:0]
	for _, b := range p {
		e.next(b)
	}
	return e.buf
}

// Flush returns what was held back, at the end.
func (e *Encoder) Flush() []byte {
	e.buf = e.buf[:0]
	if e.cr {
		e.cr = false
		e.buf = append(e.buf, '\r')
	}
	return e.buf
}

func (e *Encoder) next(b byte) {
	switch {
	case b == escape:
		if e.state == stripString {
			e.state = stripStringEscape
		} else {
			e.state, e.sequence = stripEscape, e.sequence[:0]
		}
	case e.state == stripGround:
		e.put(b)
	case e.state == stripString:
		if b == '\a' || b == 0x18 || b == 0x1a {
			e.state = stripGround
		}
	case e.state == stripStringEscape && b == '\\':
		e.state = stripGround
	case b < 0x20: // terminals execute controls within a sequence
		e.put(b)
	case e.state == stripSequence:
		if e.sequence = append(e.sequence, b); b >= 0x40 {
			if e.state = stripGround; len(e.sequence) <= maxSequence && b <= 0x7e && b != 't' &&
				string(e.sequence) != reportSizes {
				e.emit(e.sequence...)
			}
		} else if len(e.sequence) > maxSequence {
			e.sequence = e.sequence[:maxSequence+1]
		}
	case len(e.sequence) == 0 && b == '[':
		e.state = stripSequence
	case len(e.sequence) == 0 && (b == ']' || b == 'P' || b == 'X' || b == '^' || b == '_'):
		e.state = stripString
	default: // after ESC
		if e.sequence = append(e.sequence, b); b >= 0x30 || len(e.sequence) > 4 {
			e.state = stripGround
			e.private(e.sequence)
		}
	}
}

// put takes a byte of text.
func (e *Encoder) put(b byte) {
	after := e.cr
	if e.cr = b == '\r'; e.cr && after {
		return // \r\r is \r
	}
	switch {
	case b == '\n' && !after:
		e.private([]byte{'D'})
	case b == '\r':
	default:
		if after && b != '\n' {
			e.buf = append(e.buf, '\r')
		}
		e.buf = append(e.buf, b)
	}
}

// emit writes a sequence after what came before it.
func (e *Encoder) emit(sequence ...byte) {
	e.buf = append(append(append(e.buf, e.held()...), LogColor...), sequence...)
}

// held returns the \r that waits: a sequence stands between it and what follows.
func (e *Encoder) held() []byte {
	if e.cr {
		e.cr = false
		return []byte{'\r'}
	}
	return nil
}

// private writes a sequence that has no parameters.
func (e *Encoder) private(sequence []byte) {
	e.emit()
	for i, b := range sequence {
		if i > 0 {
			e.buf = append(e.buf, ';')
		}
		e.buf = strconv.AppendInt(e.buf, int64(b), 10)
	}
	e.buf = append(e.buf, " p"...)
}

// Decode appends a piece of such a log as a terminal gets it. The piece has whole sequences.
func Decode(dst, p []byte) []byte {
	for {
		at := bytes.Index(p, []byte(LogColor))
		plain := p
		if at >= 0 {
			plain = p[:at]
		}
		for line := range bytes.Lines(plain) {
			if text, ended := bytes.CutSuffix(line, []byte("\n")); ended {
				dst = append(append(dst, text...), "\r\n"...)
			} else {
				dst = append(dst, line...)
			}
		}
		if at < 0 {
			return dst
		}
		p = p[at+len(LogColor):]
		n := len(sequenceOf(p))
		if codes, private := bytes.CutSuffix(p[:n], []byte(" p")); private {
			dst = append(dst, escape)
			for code := range bytes.SplitSeq(codes, []byte(";")) {
				b, _ := strconv.Atoi(string(code))
				dst = append(dst, byte(b))
			}
		} else {
			dst = append(append(dst, TerminalColor...), p[:n]...)
		}
		p = p[n:]
	}
}

// sequenceOf returns the sequence at the beginning of p, after its introducer: parameters and a final byte.
func sequenceOf(p []byte) []byte {
	n := 0
	for n < len(p) && p[n] >= 0x20 && p[n] <= 0x3f {
		n++
	}
	if n < len(p) && p[n] >= 0x40 && p[n] <= 0x7e {
		n++
	}
	return p[:n]
}
