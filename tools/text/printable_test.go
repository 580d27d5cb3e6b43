package text

import "testing"

// A stranger's text is one line in which nothing is hidden. Letters, marks and emoji of all scripts stay.
func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"a\x1b[31mb\r\nc\td\x9b":                           "a [31mb  c d ", // 0x9b alone is no UTF-8
		"\u202eb\u2066c\u200fd\u061c":                      " b c d ",
		"pay\u200bpal\u200c\u200d\u2060\ufeff\u00ad\u180e": "pay pal      ",
		// Tags and selectors can carry a whole text.
		"a\U000e0041\U000e0100\u3164\u115f":    "a    ",
		"e\u0301 \u26a0\ufe0f नमस्ते \u0601 文": "e\u0301 \u26a0\ufe0f नमस्ते \u0601 文",
		"a\u2028b\u2029c": "a b c",
	} {
		for range 2 {
			if got := Printable(text); got != want {
				t.Errorf("%q became %q, want %q", text, got, want)
			}
		}
	}
}
