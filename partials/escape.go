package partials

const hex = "0123456789abcdef"

// appendText appends text as a JSON string without its quotes. It is written out by hand because every byte
// of output passes here: encoding/json costs ten times as much for a short text. FuzzEscape holds
// it to what encoding/json reads. text is valid UTF-8.
func appendText(dst, text []byte) []byte {
	start := 0
	for i := 0; i < len(text); i++ {
		c := text[i]
		if plain[c] {
			continue
		}
		if c == 0xE2 {
			// U+2028 and U+2029 are line ends to readers that split lines by Unicode's rules.
			if i+2 < len(text) && text[i+1] == 0x80 && text[i+2]&^1 == 0xA8 {
				dst = append(dst, text[start:i]...)
				dst = append(dst, '\\', 'u', '2', '0', '2', hex[text[i+2]&15])
				i += 2
				start = i + 1
			}
			continue
		}
		dst = append(dst, text[start:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		start = i + 1
	}
	return append(dst, text[start:]...)
}

// plain marks the bytes that appendText copies without a second look.
var plain = func() (t [256]bool) {
	for c := range t {
		t[c] = c >= ' ' && c != '"' && c != '\\' && c != 0x7F && c != 0xE2
	}
	return t
}()
