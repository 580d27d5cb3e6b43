package rawjson

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// AppendText appends text as a JSON string without its quotes. It is written out by hand because every byte
// of output passes here: encoding/json costs ten times as much for a short text. What is long and ASCII goes 64 bytes at a time, the rest eight,
// and what is rare one. FuzzEscape holds it to a slow twin and to what encoding/json reads. text is valid UTF-8.
func AppendText(dst, text []byte) []byte {
	for len(text) >= 2*blockSize {
		block := (*[2 * blockSize]byte)(text)
		if marks, ok := blockMarks(block); ok {
			dst, text = appendBlock(dst, block, marks), text[blockSize:]
		} else {
			dst, text = appendEights(dst, text, min(len(text)&^7, 8*blockSize))
		}
	}
	for len(text) >= 8 {
		dst, text = appendEights(dst, text, len(text)&^7)
	}
	dst, _ = appendSlowly(dst, text, len(text))
	return dst
}

// appendBlock appends the first blockSize bytes of block, all ASCII, of which marks are those that may have to be escaped. What is
// between two of them is copied with what follows it, whatever that is: the next one overwrites what is too much. So nearly nothing depends on where
// the escapes are. To look at each eight bytes and go one way or the other cost twice as much for source code, where the processor cannot
// foresee which, and a quarter more for the lines of a log.
func appendBlock(dst []byte, block *[2 * blockSize]byte, marks uint64) []byte {
	dst = slices.Grow(dst, blockRoom)
	out, at := (*[blockRoom]byte)(dst[len(dst):len(dst)+blockRoom]), 0
	read := 0
	for marks != 0 {
		next := bits.TrailingZeros64(marks) & (blockSize - 1)
		marks &= marks - 1
		plain := next - read
		// The masks change nothing: they tell the compiler what needs no check.
		*(*[16]byte)(out[at&(blockRoom/2-1):]) = *(*[16]byte)(block[read&(blockSize-1):])
		if plain > 16 {
			*(*[48]byte)(out[(at+16)&(blockRoom/2-1):]) = *(*[48]byte)(block[(read+16)&(blockSize-1):])
		}
		at += plain
		e := &escapes[block[next]]
		binary.LittleEndian.PutUint64(out[at&(blockRoom/2-1):], e.text)
		at += e.length
		read = next + 1
	}
	*(*[blockSize]byte)(out[at&(blockRoom/2-1):]) = *(*[blockSize]byte)(block[read&(2*blockSize-1):])
	return dst[:len(dst)+at+blockSize-read]
}

const (
	blockSize = 64
	// blockRoom is twice a power of two that is more than a block's escapes can take: what is copied too much has room, too.
	blockRoom = 1 << 10
)

// blockMarks has a bit for each of the first blockSize bytes of block that suspects marks. It reports false if they are not all ASCII.
func blockMarks(block *[2 * blockSize]byte) (marks uint64, ok bool) {
	a, b, c, d := eightAt(block, 0), eightAt(block, 8), eightAt(block, 16), eightAt(block, 24)
	e, f, g, h := eightAt(block, 32), eightAt(block, 40), eightAt(block, 48), eightAt(block, 56)
	if (a|b|c|d|e|f|g|h)&highest != 0 {
		return 0, false
	}
	return gathered(a) | gathered(b)<<8 | gathered(c)<<16 | gathered(d)<<24 |
		gathered(e)<<32 | gathered(f)<<40 | gathered(g)<<48 | gathered(h)<<56, true
}

func eightAt(block *[2 * blockSize]byte, i int) uint64 { return binary.LittleEndian.Uint64(block[i:]) }

// gathered is what suspects marks, a bit for a byte: the product brings the highest bits together in its highest byte.
func gathered(eight uint64) uint64 { return suspects(eight) * 0x0002040810204081 >> 56 }

// appendEights appends the first n bytes of text, a multiple of eight, or fewer, and returns what follows them.
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
		// What comes first in eight is written with all that follows it, and so is each escape: the next one overwrites what is too much.
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

// appendSlowly appends the characters that begin in the next n bytes of text, one after the other, and returns what follows them.
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

	// Of each of eight bytes.
	lowest, highest = 0x0101010101010101, 0x8080808080808080
)

// suspects marks the bytes of eight that are escaped, by their highest bit: all of those, and perhaps plain ones behind them. None that is not ASCII.
func suspects(eight uint64) uint64 {
	// Of a byte below 0x80 the highest bit is set by taking away more than it is, and by adding one to 0x7F. 0x22 is the quote:
	// with 2 flipped it is 0x20, and what was below 0x20 still is.
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
