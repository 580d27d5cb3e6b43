package rawjson

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// AppendText appends text, which must be valid UTF-8, as a JSON string without its quotes. Use it on the way
// of output: every byte passes here, and encoding/json takes ten times as long for a short text. It takes
// eight bytes at a time, and rare characters one by one. FuzzEscape compares it with a slow version and with
// encoding/json.
func AppendText(dst, text []byte) []byte {
	for len(text) >= 8 {
		dst, text = appendEights(dst, text, min(len(text)&^7, 512)) // dst grows by what that may take at most
	}
	dst, _ = appendSlowly(dst, text, len(text))
	return dst
}

// appendEights appends the first n bytes of text, a multiple of eight, or fewer, and returns what follows
// them.
func appendEights(dst, text []byte, n int) (_, rest []byte) {
	dst = slices.Grow(dst, longestEscape*n+8)
	out, at := dst[:cap(dst)], len(dst)
	read := 0
	for ; read < n; read += 8 {
		eight := binary.LittleEndian.Uint64(text[read:])
		if eight&highest != 0 && mayEndLine(eight) {
			break
		}
		left := 8
		// All of eight is written each time, and so is each escape with what follows it: the next write
		// overwrites the excess.
		for marks := suspects(eight); marks != 0; {
			binary.LittleEndian.PutUint64(out[at:], eight)
			plain := bits.TrailingZeros64(marks) &^ 7 // bits before the first mark
			at += plain / 8
			left -= plain/8 + 1
			eight >>= plain & 63
			e := &escapes[eight&0x7F]
			binary.LittleEndian.PutUint64(out[at:], e.text)
			at += e.length
			eight >>= 8
			marks = marks >> (plain & 63) >> 8
		}
		binary.LittleEndian.PutUint64(out[at:], eight)
		at += left
	}
	dst, text = dst[:at], text[read:]
	if read < n {
		dst, text = appendSlowly(dst, text, 8)
	}
	return dst, text
}

// appendSlowly appends the characters that begin in the next n bytes of text, one after the other, and
// returns what follows them.
func appendSlowly(dst, text []byte, n int) (_, rest []byte) {
	i := 0
	for i < n {
		c := text[i]
		switch {
		case c == lineEnds && i+2 < len(text) && text[i+1] == 0x80 && text[i+2]&^1 == 0xA8:
			// U+2028 and U+2029 are line ends to readers that split lines by Unicode's rules.
			dst = append(dst, '\\', 'u', '2', '0', '2', hex[text[i+2]&15])
			i += 2
		case c < 0x80 && escapes[c].length > 1:
			e := binary.LittleEndian.AppendUint64(dst, escapes[c].text)
			dst = e[:len(dst)+escapes[c].length]
		default:
			dst = append(dst, c)
		}
		i++
	}
	return dst, text[i:]
}

const (
	hex = "0123456789abcdef"
	// lineEnds is the first byte of U+2028 and U+2029 (and of 4,094 others).
	lineEnds = 0xE2

	// The lowest and the highest bit of each of eight bytes.
	lowest, highest = 0x0101010101010101, 0x8080808080808080
)

// suspects marks the bytes of eight that must be escaped, by their highest bit, and perhaps plain ones after
// them, but only ASCII.
func suspects(eight uint64) uint64 {
	// The highest bit of a byte below 0x80 is set by taking away more than it is, and by adding one to 0x7F.
	// 0x22 is the quote: with 2 flipped it is 0x20, and what was below 0x20 still is.
	controlOrQuote := (eight ^ 2*lowest) - 0x21*lowest
	backslash := (eight ^ '\\'*lowest) - lowest
	del := eight + lowest
	return (controlOrQuote | backslash | del) &^ eight & highest
}

// mayEndLine reports whether one of eight bytes is lineEnds.
func mayEndLine(eight uint64) bool {
	zero := eight ^ lineEnds*lowest
	return (zero-lowest)&^zero&highest != 0
}

// escapes are the ASCII characters as they stand in a JSON string.
var escapes = func() (t [0x100]struct {
	text   uint64 // its first length bytes, from the lowest on
	length int
}) {
	for c := range t {
		text := [8]byte{byte(c)}
		length := 1
		switch {
		case c == '"' || c == '\\':
			length = copy(text[:], []byte{'\\', byte(c)})
		case c == '\n':
			length = copy(text[:], `\n`)
		case c == '\r':
			length = copy(text[:], `\r`)
		case c == '\t':
			length = copy(text[:], `\t`)
		case c < ' ' || c == 0x7F:
			length = copy(text[:], []byte{'\\', 'u', '0', '0', hex[c>>4], hex[c&15]})
		}
		t[c].text, t[c].length = binary.LittleEndian.Uint64(text[:]), length
	}
	return t
}()

const longestEscape = len(`\u0000`)
