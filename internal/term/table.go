package term

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/mattn/go-isatty"
)

// Table lays out rows in columns, with their cells made Printable.
func Table(rows [][]string) string {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, cells := range rows {
		for n, cell := range cells {
			cells[n] = Printable(cell)
		}
		_, _ = io.WriteString(table, strings.Join(cells, "\t")+"\n")
	}
	_ = table.Flush() // writing to memory does not fail
	return text.String()
}

// PrintLines prints a list, such as a Table. On a terminal, lines are cut to its width.
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

// Age shows a duration to a person who reads a list: in its largest unit, or in two where one says too
// little.
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

// Size returns the size of a terminal in characters, or a usual size if it is unknown.
func Size(w io.Writer) (width, height int) {
	if f, ok := w.(*os.File); ok {
		if width, height := consoleSize(f); width > 0 && height > 0 {
			return width, height
		}
	}
	return defaultWidth, defaultHeight
}

// IsTerminal reports whether an input or output is a terminal, so that a person can read or answer there.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && isatty.IsTerminal(f.Fd()) && takesEscapes(f)
}

// IsNull reports whether an input is the null device: the program that has started this one writes nothing.
func IsNull(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	is, err := f.Stat()
	null, nullErr := os.Stat(os.DevNull)
	return err == nil && nullErr == nil && os.SameFile(is, null)
}

// Wrap breaks a text at its blanks into lines of at most width columns; the second and the following ones
// begin after indent columns, and so does what the caller writes before the first. Lines of the text are
// joined.
func Wrap(text string, width, indent int) string {
	var b strings.Builder
	column := indent
	for n, word := range strings.Fields(text) {
		size := utf8.RuneCountInString(word)
		switch {
		case n > 0 && column+1+size > width:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			column = indent
		case n > 0:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += size
	}
	return b.String()
}
