package headers

import "testing"

// FuzzEncode is that a text comes back from a header, which only has characters that can be sent.
func FuzzEncode(f *testing.F) {
	for _, text := range []string{"", "plain", " blank ", "hé", "=?base64?x?=", "=?base64?", "a\tb",
		"a\nb", "\x7f"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		value := Encode(text)
		for _, c := range []byte(value) {
			if (c < ' ' || c > '~') && c != '\t' {
				t.Fatalf("%q", value)
			}
		}
		if got, ok := Decode(value); !ok || got != text {
			t.Errorf("%q became %q, then %q", text, value, got)
		}
	})
}
