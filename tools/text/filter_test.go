package text

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

func TestLineFilter(t *testing.T) {
	var numbers strings.Builder
	for n := range 20 {
		fmt.Fprintf(&numbers, "line %d\n", n)
	}
	for _, c := range []struct {
		in            string
		grep          string
		context, tail float64
		want          string
	}{
		{"a\nb\nc", "", 0, 2, "b\nc\n"},
		{"a\nb\n", "", 0, 9, "a\nb\n"},
		{"a\nb\nab\n", "b", 0, 0, "b\nab\n"},
		{"a\nb\nab\n", "b", 0, 1, "ab\n"},
		{"a\n", "b", 0, 0, "no line matches\n"},
		{"10%\r50%\r100%\r\nnext\n", "%", 0, 0, "100%\n"},
		{"10%\r50%", "^5", 0, 0, "50%\n"},
		// A character stands where a line that is too long is cut.
		{strings.Repeat("a", maxFilteredLine-1) + "éb\n", "b", 0, 0, "éb\n"},
		{numbers.String(), "line (3|5|12)$", 1, 0,
			"line 2\nline 3\nline 4\nline 5\nline 6\n--\nline 11\nline 12\nline 13\n"},
		{numbers.String(), "line 1$", 3, 0, "line 0\nline 1\nline 2\nline 3\nline 4\n"},
		{numbers.String(), "line 1", 0, 3, "line 17\nline 18\nline 19\n"},
	} {
		for _, size := range []int{1, 3, 1000} { // of the pieces in which it comes
			f, err := NewFilter(c.grep, c.context, c.tail)
			if err != nil {
				t.Fatal(err)
			}
			shaper := &Shaper{Limit: 1 << 20}
			f.To = shaper
			for rest := []byte(c.in); len(rest) > 0; {
				n := min(size, len(rest))
				_, _ = f.Write(rest[:n])
				rest = rest[n:]
			}
			f.End()
			if got, _ := shaper.Text(shaper.Limit, Gap.Words); got != c.want {
				t.Errorf("%.20q, grep %q, context %v, tail %v, in pieces of %d: %q, want %q", c.in, c.grep,
					c.context, c.tail, size, got, c.want)
			}
		}
	}
	if f, err := NewFilter("", 3, 0); f != nil || err != nil {
		t.Errorf("nothing is asked for: %v, %v", f, err)
	}
	for _, bad := range []string{"(", "(a?){1000}b", "((x{30}){30}){2}"} { // the last two cost 30 µs a byte
		if _, err := NewFilter(bad, 0, 0); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}

// Lines that are let go are not held by those that stay.
func TestARingHoldsOnlyItsLines(t *testing.T) {
	held := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	var r lineRing
	for range maxRing + 1 {
		r.add([]byte("short\n"), maxRing)
	}
	long := bytes.Repeat([]byte{'x'}, maxFilteredLine)
	before := held()
	for range 1000 {
		r.add(long, maxRing)
	}
	if n := int64(held()) - int64(before); n > 4*maxRingBytes {
		t.Errorf("%d lines of %d bytes hold %d bytes", len(r.lines), r.size, n)
	}
}
