package terminal

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"runnel/tools/text"
)

const most = 32 << 10

// kept is what the log keeps of what a terminal is sent.
func kept(raw string) []byte {
	var e text.Encoder
	return append(bytes.Clone(e.Encode([]byte(raw))), e.Flush()...)
}

// The screens of real programs are those of tmux, with the cursor, however their output was cut.
func TestScreensAreThoseOfTmux(t *testing.T) {
	files, err := filepath.Glob("testdata/screens/*.raw")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d recordings, %v", len(files), err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		golden, err := os.ReadFile(strings.TrimSuffix(file, ".raw") + ".screen")
		if err != nil {
			t.Fatal(err)
		}
		place, want, _ := strings.Cut(string(golden), "\n")
		want = strings.TrimRight(want, "\n")
		for _, size := range []int{len(raw), 1000} {
			s := NewScreen(120, 40, nil)
			var e text.Encoder
			for piece := range pieces(raw, size) {
				s.Write(e.Encode(piece), most)
			}
			got, row, column := s.Text()
			if got != want {
				t.Errorf("%s in pieces of %d:\n%s\nwant:\n%s", file, size, got, want)
			}
			if at := fmt.Sprintf("cursor %d %d", row-1, column-1); at != place {
				t.Errorf("%s: the cursor is at %s, want %s", file, at, place)
			}
		}
	}
}

func pieces(raw []byte, size int) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for ; len(raw) > 0; raw = raw[min(size, len(raw)):] {
			if !yield(raw[:min(size, len(raw))]) {
				return
			}
		}
	}
}

// News has the lines that have changed, each once, and nothing else: at a prompt, where lines leave the top, after
// the screen was cleared, and on the alternate one.
func TestNews(t *testing.T) {
	for range 2 {
		s := NewScreen(20, 4, nil)
		for _, step := range []struct{ sent, want string }{
			{"banner\r\n\r\n> ", "banner\n\n>\n"},
			{"", ""},
			{"1+1\r\n2\r\n> ", "> 1+1\n2\n>\n"},
			{"a\r\nb\r\nc\r\n> ", "> a\nb\nc\n>\n"},
			{"x\r\n1\r\n\r\n2\r\n3\r\n4\r\n5\r\n> ", "> x\n1\n\n2\n3\n4\n5\n>\n"},
			{"\x1b[H\x1b[2J> ", ">\n"},
			{"y\r\n> ", "> y\n>\n"},
			{"\x1b[?1049h\x1b[Htop\x1b[4;1Hbottom", "top\n\n\nbottom\n"},
			{"\x1b[2;3Hmiddle", "  middle\n"},
			{"\x1b[?1049l", "> y\n>\n"},
			{"10%\r20%\r30%", "30%0%\n"},
			{"\b\b\b\x1b[K\x1b[1A\x1b[1Gz\x1b[1B", "z y\n"},
		} {
			s.Write(kept(step.sent), most)
			if got := s.News(most); got != step.want {
				t.Errorf("%q: %q, want %q", step.sent, got, step.want)
			}
		}
	}
}

// Much is shortened to head and tail, and a size that comes with the log counts.
func TestNewsOfMuch(t *testing.T) {
	s := NewScreen(80, 24, nil)
	for range 2 {
		for n := range 2000 {
			s.Write(kept(fmt.Sprintf("line %d\r\n", n)), 4<<10)
		}
		got := s.News(4 << 10)
		if len(got) > 5<<10 || !strings.Contains(got, "line 0\n") || !strings.HasSuffix(got, "line 1999\n") ||
			!strings.Contains(got, "bytes") {
			t.Errorf("%d bytes: %.200q", len(got), got)
		}
	}
	s.Write(Resized(100, 30), most)
	if columns, rows := s.Size(); columns != 100 || rows != 30 {
		t.Errorf("%d x %d", columns, rows)
	}
}

// A program's queries are answered.
func TestAnswers(t *testing.T) {
	var answers string
	s := NewScreen(80, 24, func(code string) { answers += code })
	for range 2 {
		s.Write(kept("\x1b[5;7H\x1b[6n\x1b[5n\x1b[c\x1b[>c\x1b[?2048h\x1b[?6n\x1b[?2004$p\x1b[c"), most)
		if want := "\x1b[5;7R\x1b[0n\x1b[?62;22c\x1b[>1;10;0c\x1b[?62;22c"; answers != want {
			t.Errorf("%q", answers)
		}
		answers = ""
	}
}

// A log in pieces has what a terminal is sent and, apart from that, the sizes that it gets: those that runnel wrote, and
// none that a program did.
func TestPieces(t *testing.T) {
	log := append(Resized(100, 30), kept("one\r\n\x1b[8;5;5ttwo\x1b[1m")...)
	log = append(append(log, Resized(80, 24)...), kept("three")...)
	log = append(append(log, Resized(maxSize+1, 1)...), kept("four")...)
	for range 2 {
		var got string
		for piece := range Pieces(log) {
			got += fmt.Sprintf("%q %dx%d\n", piece.Sent, piece.Columns, piece.Rows)
		}
		if want := "\"\" 100x30\n\"one\\r\\ntwo\\x1b[1m\" 0x0\n\"\" 80x24\n\"three\" 0x0\n\"four\" 0x0\n"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
