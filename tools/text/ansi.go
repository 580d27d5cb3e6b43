package text

import "bytes"

// Introducers of a sequence of colours ("Select Graphic Rendition", ECMA-48, 8.3.117).
const (
	// TerminalColor is how a terminal gets it.
	TerminalColor = "\x1b["
	// LogColor is how the log of a command keeps it, the other form of the same function (ECMA-48, 5.4):
	// WithoutColors takes it from what a client gets, and leaves the sequences of "ansi: keep" as they are.
	LogColor = "\u009b"
)

// WithoutColors returns a piece of a log without the colours of LogColor: p itself if it has none.
func WithoutColors(p []byte) []byte {
	first, rest := CutColor(p)
	if len(first) == len(p) {
		return p
	}
	plain := make([]byte, 0, len(p))
	for plain = append(plain, first...); len(rest) > 0; plain = append(plain, first...) {
		first, rest = CutColor(rest)
	}
	return plain
}

// CutColor returns the text of a piece of a log before its first colour, and what comes after that.
func CutColor(p []byte) (plain, rest []byte) {
	at := bytes.Index(p, []byte(LogColor))
	if at < 0 {
		return p, nil
	}
	rest = p[at+len(LogColor):]
	return p[:at], rest[len(sequenceOf(rest)):]
}

// Stripper removes the escape sequences of terminals (ECMA-48) from a stream of UTF-8, also if they are split
// between two reads. A sequence without an end removes at most the rest of its line. One that moves the
// cursor to the first column becomes the \r that it stands for: spinners overwrite their line so. The zero
// value is ready to use.
type Stripper struct {
	// CRLF replaces \r\n and \r\r\n by \n, for the output of a terminal, whose driver ends lines so. A \r
	// alone stays: programs overwrite a line with it.
	CRLF bool
	// Colors is TerminalColor or LogColor to let the sequences pass, in that form, that only change how text
	// looks.
	Colors string

	state stripState
	color []byte // the parameters of a sequence that may be one of colours
	cr    bool   // one or more \r have been read; the next byte of text decides about them
	buf   []byte // what Strip returned last
}

type stripState uint8

const (
	stripGround   stripState = iota
	stripEscape              // after ESC
	stripHalf                // after the first byte of LogColor
	stripSequence            // CSI: parameters, then one final byte
	stripString              // OSC, DCS, SOS, PM, APC: until BEL or ST
	stripStringEscape
)

const escape = 0x1b

// maxColor bounds the parameters of a sequence of colours, in bytes: six full colours.
const maxColor = 128

// Strip returns p without escape sequences: p itself if it has none. The result is valid until the next call.
func (s *Stripper) Strip(p []byte) []byte {
	if s.state == stripGround && !s.cr && introducer(p) < 0 && (!s.CRLF || bytes.IndexByte(p, '\r') < 0) {
		return p
	}
	s.buf = s.buf[:0]
	for len(p) > 0 {
		if n := s.plain(p); n > 0 {
			s.buf = append(s.buf, p[:n]...)
			p = p[n:]
		}
		if len(p) > 0 {
			s.next(p[0])
			p = p[1:]
		}
	}
	return s.buf
}

// introducer returns where a sequence may begin, -1 if there is none.
func introducer(p []byte) int {
	at := bytes.IndexByte(p, escape)
	if at >= 0 {
		p = p[:at]
	}
	if other := bytes.IndexByte(p, LogColor[0]); other >= 0 {
		return other
	}
	return at
}

// plain returns how many bytes at the beginning of p pass unchanged.
func (s *Stripper) plain(p []byte) int {
	if s.state != stripGround || s.cr {
		return 0
	}
	if i := introducer(p); i >= 0 {
		p = p[:i]
	}
	if s.CRLF {
		if i := bytes.IndexByte(p, '\r'); i >= 0 {
			p = p[:i]
		}
	}
	return len(p)
}

// Flush ends the stream and returns what was held back.
func (s *Stripper) Flush() []byte {
	s.buf = s.buf[:0]
	if s.cr {
		s.cr = false
		s.buf = append(s.buf, '\r')
	}
	if s.state == stripHalf {
		s.state = stripGround
		s.buf = append(s.buf, LogColor[0])
	}
	return s.buf
}

func (s *Stripper) next(b byte) {
	switch s.state {
	case stripEscape:
		switch {
		case b == '[':
			s.state, s.color = stripSequence, s.color[:0]
			return
		case b == ']' || b == 'P' || b == 'X' || b == '^' || b == '_':
			s.state = stripString
			return
		case b >= 0x20 && b <= 0x2f: // intermediate bytes
			return
		case b >= 0x30 && b <= 0x7e:
			s.state = stripGround
			return
		}
	case stripHalf:
		if b == LogColor[1] {
			s.state, s.color = stripSequence, s.color[:0]
			return
		}
		s.put(LogColor[0])
	case stripSequence:
		switch {
		case b >= 0x20 && b <= 0x3f:
			if len(s.color) <= maxColor {
				s.color = append(s.color, b)
			}
			return
		case b >= 0x40 && b <= 0x7e:
			s.state = stripGround
			if params := string(s.color); b == 'G' && (params == "" || params == "0" || params == "1") {
				s.put('\r')
			}
			if b == 'm' && s.Colors != "" && len(s.color) <= maxColor &&
				len(bytes.Trim(s.color, "0123456789;:")) == 0 {
				s.buf = append(append(append(s.buf, s.Colors...), s.color...), 'm')
			}
			return
		}
	case stripString:
		switch b {
		case '\a', 0x18, 0x1a: // BEL ends it; CAN and SUB break it off
			s.state = stripGround
			return
		case escape:
			s.state = stripStringEscape
			return
		case '\n', '\r':
		default:
			return
		}
	case stripStringEscape:
		if b == '\\' {
			s.state = stripGround
			return
		}
		s.state = stripEscape
		s.next(b)
		return
	}
	// A byte that is not allowed in the sequence ends it and is text.
	s.state = stripGround
	s.text(b)
}

func (s *Stripper) text(b byte) {
	switch b { // a sequence between \r and \n decides nothing about them
	case escape:
		s.state = stripEscape
	case LogColor[0]:
		s.state = stripHalf
	default:
		s.put(b)
	}
}

// put passes a byte of text.
func (s *Stripper) put(b byte) {
	if s.cr && b != '\r' {
		s.cr = false
		if b != '\n' {
			s.buf = append(s.buf, '\r')
		}
	}
	if b == '\r' && s.CRLF {
		s.cr = true
	} else {
		s.buf = append(s.buf, b)
	}
}

// StripANSI returns a whole text without escape sequences.
func StripANSI(p []byte) []byte {
	var s Stripper
	return s.Strip(p)
}
