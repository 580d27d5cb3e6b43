package term

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rs/zerolog"
)

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0.0s", 1510 * time.Millisecond: "1.5s", 10 * time.Second: "10s",
		20 * time.Second: "20s",
		time.Minute:      "1m", 10 * time.Minute: "10m", 10*time.Minute + 10*time.Second: "10m10s",
		time.Hour: "1h0m", 20*time.Hour + 10*time.Minute + 20*time.Second: "20h10m", 72 * time.Hour: "3d",
	} {
		if got := Age(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

// Wrapped text has the words of the text, and no line is wider than it may be, but for a word that is.
func TestWrap(t *testing.T) {
	const text = "Each  call runs as a task:\nits output arrives while it runs, über alles, and https://example.com/a/long/address"
	for width := 1; width < 120; width++ {
		for _, indent := range []int{0, 7} {
			wrapped := Wrap(text, width, indent)
			if strings.Join(strings.Fields(wrapped), " ") != strings.Join(strings.Fields(text), " ") {
				t.Fatalf("%d: %s", width, wrapped)
			}
			for n, line := range strings.Split(wrapped, "\n") {
				if n == 0 {
					line = strings.Repeat(" ", indent) + line
				}
				if utf8.RuneCountInString(line) > width &&
					strings.Contains(strings.TrimLeft(line, " "), " ") ||
					!strings.HasPrefix(line, strings.Repeat(" ", indent)) {
					t.Errorf("%d, %d: %q", width, indent, line)
				}
			}
		}
	}
}

// A person reads the stack of a panic line by line, below the line of the log.
func TestLogShowsStacks(t *testing.T) {
	var shown bytes.Buffer
	log := zerolog.New(LogWriter(&shown, false))
	for range 2 {
		shown.Reset()
		log.Error().Str("tool", "count").
			Bytes("stack", []byte("goroutine 1 [running]:\nmain.main()\n\tmain.go:3 +0x1d\x1b\n")).
			Msg("tool panicked")
		if want := " ERR tool panicked tool=count\ngoroutine 1 [running]:\nmain.main()\n main.go:3 +0x1d"; !strings.Contains(shown.String(), want) || strings.Contains(shown.String(), "\x1b") {
			t.Errorf("%q", shown.String())
		}
	}
}
