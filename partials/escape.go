package partials

import (
	"encoding/binary"
	"math/bits"
)

const hex = "0123456789abcdef"

// appendText appends text as a JSON string without its quotes. It is written out by hand because every byte
// of output passes here: encoding/json costs ten times as much for a short text, and looking at one byte at a time instead of
// eight was an eighth of what a small chunk costs. FuzzEscape holds it to a slow twin and to what encoding/json reads.
// text is valid UTF-8.
func appendText(dst, text []byte) []byte {
	for {
		n := plainLen(text)
		dst = append(dst, text[:n]...)
		if n == len(text) {
			return dst
		}
		text = text[n:]
		switch c := text[0]; c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		case lineEnds:
			// U+2028 and U+2029 are line ends to readers that split lines by Unicode's rules.
			if len(text) > 2 && text[1] == 0x80 && text[2]&^1 == 0xA8 {
				dst = append(dst, '\\', 'u', '2', '0', '2', hex[text[2]&15])
				text = text[2:]
			} else {
				dst = append(dst, c)
			}
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		text = text[1:]
	}
}

// lineEnds is the first byte of U+2028 and U+2029 (and of 4,094 others).
const lineEnds = 0xE2

// plainLen is how many bytes text begins with that are copied as they are.
func plainLen(text []byte) int {
	i := 0
	for i < len(text) {
		if len(text)-i >= 8 {
			marks := suspects(binary.LittleEndian.Uint64(text[i:]))
			if marks == 0 {
				i += 8
				continue
			}
			i += bits.TrailingZeros64(marks) / 8
		}
		stretch := min(i+32, len(text)) // where one letter is not ASCII there are more
		for ; i < stretch; i++ {
			if !plain[text[i]] {
				return i
			}
		}
	}
	return i
}

// suspects marks, by its highest bit, the first of eight bytes that is not ASCII or not plain. What it marks behind it may be wrong.
func suspects(eight uint64) uint64 {
	const each, highest = 0x0101010101010101, 0x8080808080808080
	// Of a byte below 0x80 the highest bit is set by taking away more than it is, and by adding one to 0x7F.
	control := eight - ' '*each
	quote := (eight ^ '"'*each) - each
	backslash := (eight ^ '\\'*each) - each
	del := eight + each
	return (eight | control | quote | backslash | del) & highest
}

// plain marks the bytes that are copied without a second look.
var plain = func() (t [256]bool) {
	for c := range t {
		t[c] = c >= ' ' && c != '"' && c != '\\' && c != 0x7F && c != lineEnds
	}
	return t
}()
