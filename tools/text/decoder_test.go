package text

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
)

// decodeAll decodes p in pieces of n bytes.
func decodeAll(t *testing.T, name string, codePage int, p []byte, n int) string {
	t.Helper()
	d, err := NewDecoder(name, codePage)
	if err != nil {
		t.Fatal(err)
	}
	var got []byte
	for len(p) > 0 {
		n := min(n, len(p))
		got = append(got, d.Decode(p[:n])...)
		p = p[n:]
	}
	return string(append(got, d.Flush()...))
}

func TestDecoder(t *testing.T) {
	const german = 850 // the code page of consoles in Western Europe
	for _, test := range []struct {
		name     string
		codePage int
		output   string
		want     string
	}{
		{"auto", 0, "plain ä€𝄞\r\n", "plain ä€𝄞\r\n"},
		{"auto", 0, "", ""},
		{"auto", 0, "a", "a"},
		{"auto", 0, "a\x00", "a\x00"},                     // too short to be UTF-16
		{"auto", 0, "damaged \xff", "damaged \uFFFD"},     // as before
		{"auto", 0, "\xef\xbb\xbf{}", "{}"},               // the mark is not part of the text
		{"auto", 0, "\xef", "\uFFFD"},                     // the beginning of a mark, at the end
		{"auto", 0, "\xff\xfea\x00\r\x00\n\x00", "a\r\n"}, // PowerShell 5: > file
		{"auto", 0, "\xfe\xff\x00a\x04\x30", "aа"},
		{"auto", 0, "a\x00\r\x00\n\x00\x3d\xd8\x00\xde", "a\r\n😀"}, // wsl --list: without a mark
		{"auto", german, "caf\xe9", "cafÚ"},
		{"auto", german, "gr\x81n und gr\xc3\xbcn", "grün und gr├╝n"}, // one encoding for all that follows
		{"auto", german, "UTF-8 grün", "UTF-8 grün"},
		{"auto", 932, "\x93\xfa\x96\x7b", "日本"},
		{"auto", 65001, "\x81", "\uFFFD"},
		{"utf-8", german, "\xef\xbb\xbf\x81", "\uFEFF\uFFFD"}, // as it is
		{"utf-16le", 0, "\x30\x04a\x00", "аa"},
		{"utf-16le", 0, "\xff\xfe\x30\x04", "а"},
		{"UTF-16LE", 0, "a", "\uFFFD"}, // half a character
		{"gbk", 0, "\xd6\xd0\xce\xc4", "中文"},
		{"gbk", 0, "\xef", "\uFFFD"},
		{"gb18030", 0, "\x81\x30\x81\x30", "\u0080"},
		{"shift_jis", 0, "\x83\x65\x83\x58\x83\x67\xb1", "テストｱ"},
		{"big5", 0, "\x88\x62", "Ê̄"}, // two characters from one
		{"windows-1252", 0, "\x80 \xfcber", "€ über"},
		{"windows-1252", 0, "\xef\xbb\xbf€", "€"}, // the mark wins
		{"ibm850", 0, "\x81", "ü"},
	} {
		for n := 1; n <= 5; n++ {
			if n == 1 && strings.HasPrefix(test.output, "a\x00\r") {
				continue // a single first byte does not wait: it may be a prompt
			}
			if got := decodeAll(t, test.name, test.codePage, []byte(test.output), n); got != test.want {
				t.Errorf("%s (code page %d): %q in pieces of %d: %q, want %q", test.name, test.codePage,
					test.output, n, got, test.want)
			}
		}
	}
	for _, name := range []string{"", "klingon", "replacement", "iso-2022-kr", "AUTO"} {
		if d, err := NewDecoder(name, 0); err == nil {
			t.Errorf("%q is an encoding: %+v", name, d)
		}
	}
}

// A character waits for its end only, so that a prompt is there when it is printed.
func TestDecoderHoldsNoTextBack(t *testing.T) {
	for _, name := range []string{"auto", "utf-8", "gbk", "windows-1252"} {
		d, _ := NewDecoder(name, 437)
		for _, piece := range []string{">", " ", "a"} {
			if got := d.Decode([]byte(piece)); string(got) != piece {
				t.Errorf("%s: %q gave %q", name, piece, got)
			}
		}
	}
}

// The code pages of Windows' consoles: all that there is a table of.
func TestCodePages(t *testing.T) {
	for _, n := range []int{437, 850, 852, 855, 858, 860, 862, 863, 865, 866, 874, 932, 936, 949, 950, 1250,
		1251, 1252, 1253, 1254, 1255, 1256, 1257, 1258} {
		if findCodePage(n) == nil {
			t.Errorf("%d is unknown", n)
		}
	}
	if findCodePage(858) != charmap.CodePage858 || findCodePage(1252) != charmap.Windows1252 {
		t.Error("a code page is another")
	}
	for _, n := range []int{0, 1, 65001} {
		if found := findCodePage(n); found != nil {
			t.Errorf("%d is %v", n, found)
		}
	}
}

// Whatever the pieces are, the text is the same, and UTF-8.
func FuzzDecoder(f *testing.F) {
	f.Add([]byte("\xff\xfea\x00b"), byte(0), 3)
	f.Add([]byte("gr\xc3\xbcn \x81"), byte(1), 4)
	f.Fuzz(func(t *testing.T, p []byte, which byte, n int) {
		names := []string{"auto", "utf-8", "utf-16be", "gbk", "gb18030", "shift_jis", "euc-kr", "big5",
			"windows-1252", "iso-2022-jp"}
		name := names[int(which)%len(names)]
		whole := decodeAll(t, name, 0, p, len(p)+1)
		if !utf8.ValidString(whole) {
			t.Errorf("%s: %q became %q", name, p, whole)
		}
		if name == "utf-8" && !bytes.Equal([]byte(whole), Valid(p)) {
			t.Errorf("%q became %q", p, whole)
		}
		n = max(2, n&0xff) // with auto, a single first byte does not wait for more
		if got := decodeAll(t, name, 0, p, n); got != whole {
			t.Errorf("%s: %q is %q whole, and %q in pieces of %d", name, p, whole, got, n)
		}
	})
}
