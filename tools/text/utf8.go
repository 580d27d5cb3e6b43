package text

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// Valid returns p with U+FFFD in place of each byte that is not UTF-8.
func Valid(p []byte) []byte {
	if utf8.Valid(p) {
		return p
	}
	return []byte(string([]rune(string(p))))
}

// LastLines returns the end of a text, at most most bytes: in whole lines if possible, each as a terminal
// would show it in the end (the part after its last \r), without escape sequences.
func LastLines(output []byte, most int) string {
	output = StripANSI(bytes.ToValidUTF8(output, nil))
	lines := strings.Split(strings.TrimRight(string(output), " \t\r\n"), "\n")
	for i, line := range lines {
		line = strings.TrimRight(line, "\r")
		lines[i] = line[strings.LastIndexByte(line, '\r')+1:]
	}
	s := strings.Join(lines, "\n")
	if len(s) <= most {
		return s
	}
	from := len(s) - most
	if i := strings.IndexByte(s[from-1:], '\n'); i >= 0 {
		return s[from+i:]
	}
	return strings.ToValidUTF8(s[from:], "")
}
