package text

import (
	"fmt"
	"strings"
	"testing"
)

// Pages, each from where the one before ended, are the text: every line once, also where a run of equal lines
// is one line, and none beyond the end that a page has.
func TestPages(t *testing.T) {
	var in strings.Builder
	for n := range 3000 {
		fmt.Fprintf(&in, "line %d 0%%\rline %d\n", n, n)
		if n%10 == 0 {
			in.WriteString(strings.Repeat("equal\n", 2+n%30))
		}
		if n%1000 == 500 {
			in.WriteString(strings.Repeat("long ", 400) + "\n")
		}
	}
	whole := in.String()
	for _, end := range []int64{0, int64(strings.Index(whole, "line 1234 "))} {
		text := whole
		if end > 0 {
			text = whole[:end]
		}
		var all strings.Builder
		pages := 0
		for next, more := int64(0), true; more; pages++ {
			p := Page{Shaper: Shaper{Limit: 4096, From: next}, End: end}
			for rest := whole[next:]; rest != "" && !p.Full(); rest = rest[min(1000, len(rest)):] {
				_, _ = p.Write([]byte(rest[:min(1000, len(rest))]))
			}
			var shown string
			shown, next, more = p.Text(func(next int64) string { return fmt.Sprintf("more at %d", next) })
			if n := jsonSize(shown); n > 4096 || more && n < 4096-maxSlack-100 {
				t.Fatalf("page %d has %d bytes", pages, n)
			}
			if more && !strings.HasSuffix(shown, fmt.Sprintf("\nmore at %d\n", next)) ||
				next > int64(len(text)) {
				t.Fatalf("page %d ends with %q", pages, shown[len(shown)-50:])
			}
			all.WriteString(strings.TrimSuffix(shown, fmt.Sprintf("more at %d\n", next)))
		}
		read := all.String()
		for n := range 3000 {
			line := fmt.Sprintf("line %d\n", n)
			if got, want := strings.Count(read, line), strings.Count(text, line); got != want {
				t.Errorf("%q is shown %d times, not %d", line, got, want)
			}
		}
		if got, want := strings.Count(read, "long "), strings.Count(text, "long "); got != want || pages < 5 {
			t.Errorf("%d long words in %d pages, not %d", got, pages, want)
		}
	}
}
