package terminal

import "testing"

// Keys are those of tmux, with the names that people use, too. What is not a key is refused.
func TestKeys(t *testing.T) {
	for key, want := range map[string]string{
		"Enter": "\r", "ctrl-c": "\x03", "C-c": "\x03", "^D": "\x04", "C-[": "\x1b", "C-Space": "\x00",
		"M-x": "\x1bx", "alt-Left": "\x1b\x1b[D",
		"up": "\x1b[A", "PageDown": "\x1b[6~", "NPage": "\x1b[6~", "F5": "\x1b[15~", "BSpace": "\x7f",
		"x": "x", "ü": "ü", "-": "-", "^": "^", "C-M-x": "",
		"Hyperspace": "", "": "", "\n": "", "C-": "", "C-Up": "\x1b[1;5A", "C-Delete": "\x1b[3;5~", "C-F1": "\x1b[1;5P", "C-C-Up": "", "\xff": "",
	} {
		for range 2 {
			got, err := Keys([]string{key}, false)
			if string(got) != want || (err == nil) != (want != "") {
				t.Errorf("%q: %q, %v", key, got, err)
			}
		}
	}
	for range 2 {
		if got, err := Keys([]string{"Up", "Home", "x", "F1"}, true); string(got) != "\x1bOA\x1bOHx\x1bOP" ||
			err != nil {
			t.Errorf("in application mode: %q, %v", got, err)
		}
	}
}
