package hosts

import (
	"fmt"
	"strings"
)

// diff shows the lines that differ between two texts, with some context. It expects one place where they
// differ.
func diff(path string, before, after []byte) string {
	was, is := lines(before), lines(after)
	head := 0
	for head < len(was) && head < len(is) && was[head] == is[head] {
		head++
	}
	tail := 0
	for tail < len(was)-head && tail < len(is)-head && was[len(was)-1-tail] == is[len(is)-1-tail] {
		tail++
	}
	const around = 3
	from, more := max(head-around, 0), min(tail, around)
	var b strings.Builder
	fmt.Fprintf(&b, "--- %s\n+++ %[1]s\n@@ -%d,%d +%d,%d @@\n", path, min(from+1, len(was)),
		len(was)-tail+more-from, from+1, len(is)-tail+more-from)
	show := func(sign string, list []string) {
		for _, line := range list {
			b.WriteString(sign + line + "\n")
		}
	}
	show(" ", was[from:head])
	show("-", was[head:len(was)-tail])
	show("+", is[head:len(is)-tail])
	show(" ", was[len(was)-tail:len(was)-tail+more])
	return b.String()
}

// lines splits a text into lines, without line ends. It does not show whether the last line has one.
func lines(text []byte) []string {
	if len(text) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n"), "\n")
}
