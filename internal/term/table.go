package term

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/mattn/go-isatty"
)

// Table makes lines of rows, with their cells below each other and made Printable.
func Table(rows [][]string) string {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, cells := range rows {
		for n, cell := range cells {
			cells[n] = Printable(cell)
		}
		_, _ = io.WriteString(table, strings.Join(cells, "\t")+"\n")
	}
	_ = table.Flush() // memory takes all
	return text.String()
}

// PrintLines prints a list, such as a Table: on a terminal as much of each line as fits.
func PrintLines(w io.Writer, text string) error {
	if IsTerminal(w) {
		width, _ := Size(w)
		var cut strings.Builder
		for line := range strings.Lines(text) {
			cut.WriteString(strings.TrimRight(Clip(strings.TrimRight(line, "\n"), width), " ") + "\n")
		}
		text = cut.String()
	}
	_, err := io.WriteString(w, text)
	return err
}

// Age is a duration for a person who reads a list: its largest unit, or two where one says little.
func Age(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", max(d, 0).Seconds())
	case d < time.Hour:
		return strings.Replace(d.Truncate(time.Second).String(), "m0s", "m", 1)
	case d < 2*day:
		return strings.Replace(d.Truncate(time.Minute).String(), "m0s", "m", 1)
	}
	return fmt.Sprintf("%dd", d/day)
}

// The size of a terminal that does not report its own.
const (
	defaultWidth  = 80 // columns
	defaultHeight = 24 // lines
)

// Size is the size of a terminal in characters, for what fills a screen.
func Size(w io.Writer) (width, height int) {
	if f, ok := w.(*os.File); ok {
		if width, height := consoleSize(f); width > 0 && height > 0 {
			return width, height
		}
	}
	return defaultWidth, defaultHeight
}

// IsTerminal reports whether an input or output is a terminal, so that a person can be asked or told there.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && isatty.IsTerminal(f.Fd()) && takesEscapes(f)
}
