package secrets

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// spellings returns patterns for the forms in which a value may appear: as it is, in a JSON string, in a URL,
// in base64, and each line of a value of several lines, which programs print one by one. Other encodings,
// such as hexadecimal, are not covered.
func spellings(value string) []string {
	list := []string{escaped(value)}
	for line := range strings.Lines(value) {
		if line = strings.TrimRight(line, "\r\n"); len(line) >= minValue {
			list = append(list, escaped(line))
		}
	}
	list = append(list, inBase64(value)...)
	slices.Sort(list)
	return slices.Compact(list)
}

// escaped returns a pattern for a text of which each character may stand as it is, or as JSON or a URL has
// it. Which ones are escaped depends on the program: encodeURIComponent leaves !'()*, Python's quote leaves
// /, json.dumps leaves nothing beyond ASCII, PHP's json_encode not even a /. A NUL is left out: no variable
// has one, and no text of a log.
func escaped(text string) string {
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text) // a log has U+FFFD for a byte that is not UTF-8
		raw := []byte(text[:size])
		text = text[size:]
		if r == 0 {
			continue
		}
		if r < utf8.RuneSelf && isPlain(byte(r)) {
			b.WriteByte(byte(r))
			continue
		}
		ways := []string{regexp.QuoteMeta(string(r)), hex("%", raw...)}
		if i := strings.IndexRune("\"\\/\b\f\n\r\t", r); i >= 0 {
			ways = append(ways, `\\`+regexp.QuoteMeta(`"\/bfnrt`[i:i+1]))
		}
		unicode := ""
		for _, unit := range utf16.Encode([]rune{r}) {
			unicode += hex(`\\u`, byte(unit>>8)) + hex("", byte(unit))
		}
		ways = append(ways, unicode)
		if r == ' ' {
			ways = append(ways, `\+`)
		}
		b.WriteString("(?:" + strings.Join(ways, "|") + ")")
	}
	return b.String()
}

// isPlain reports whether nothing escapes a character: RFC 3986, section 2.3 calls those unreserved.
func isPlain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}

// hex returns a pattern for bytes in hexadecimal of either case, each after a prefix.
func hex(prefix string, raw ...byte) string {
	var b strings.Builder
	for _, c := range raw {
		b.WriteString(prefix)
		for _, digit := range fmt.Sprintf("%02x", c) {
			if digit >= 'a' {
				fmt.Fprintf(&b, "[%c%c]", digit, digit-'a'+'A')
			} else {
				b.WriteRune(digit)
			}
		}
	}
	return b.String()
}

// maxWrapped is the length of the longest value, in bytes, that is found in base64 of several lines: each
// place where a line may end takes memory, and time at the start.
const maxWrapped = 512

// inBase64 returns patterns for the characters of a value in base64, in both alphabets, if zero, one or two
// other bytes
// stand before it. They leave out the characters that also depend on other bytes. Lines may end anywhere:
// base64 and
// Python wrap at 76 columns, openssl at 64, and JSON has \n or \r\n for the end of a line. Only the first two
// characters stand together, since most text is skipped by them (machine.pairs), and nearly each line of it
// has a character before its end: where a line ends between them, the
// first one stays.
func inBase64(value string) (list []string) {
	for before := range 3 {
		text := base64.StdEncoding.EncodeToString(append(make([]byte, before), value...))
		text = text[(before*8+5)/6 : (before+len(value))*8/6]
		if len(text) < minValue {
			continue
		}
		letters := strings.Split(text, "")
		for i, c := range letters {
			switch c {
			case "+":
				letters[i] = "[+-]"
			case "/":
				letters[i] = "[/_]"
			}
		}
		if len(value) > maxWrapped {
			list = append(list, strings.Join(letters, ""))
			continue
		}
		const end = `\r?(?:\n|\\(?:r\\)?n)?`
		first := letters[0]
		second := letters[1]
		third := letters[2]
		list = append(list, "(?:"+first+second+end+third+"|"+second+third+")"+end+
			strings.Join(letters[3:], end))
	}
	return list
}
