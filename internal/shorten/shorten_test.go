package shorten

import (
	"testing"
	"unicode/utf8"
)

func TestBetweenCharacters(t *testing.T) {
	const s = "aé€😀"
	for n := range len(s) + 2 {
		head := Cut(s, n)
		if len(head) > n || !utf8.ValidString(head) || len(head)+utf8.UTFMax <= min(n, len(s)) {
			t.Errorf("Cut to %d: %q", n, head)
		}
		if n >= len("…") {
			if clipped := Clip(s, n); len(clipped) > n || !utf8.ValidString(clipped) ||
				(n >= len(s)) != (clipped == s) {
				t.Errorf("Clip to %d: %q", n, clipped)
			}
		}
	}
	if n := Whole([]byte("a\xff")); n != 2 { // no character begins here, so nothing is cut off
		t.Errorf("Whole: %d", n)
	}
}
