// Package shorten makes text shorter without cutting a character in two.
//
// It stands below all other rooms, so that one rule is enough for all of them.
package shorten

import (
	"fmt"
	"unicode/utf8"
)

// Whole returns how many bytes of p are whole characters: len(p), or less if its end cuts a character off.
func Whole(p []byte) int {
	for i := len(p) - 1; i >= 0 && i > len(p)-utf8.UTFMax; i-- {
		if utf8.RuneStart(p[i]) {
			if utf8.FullRune(p[i:]) {
				break
			}
			return i
		}
	}
	return len(p)
}

// Cut returns the beginning of a text, in whole characters and at most n bytes.
func Cut[T string | []byte](s T, n int) T {
	if len(s) <= n {
		return s
	}
	return s[:Whole([]byte(s[:n]))]
}

// Clip returns a text of at most n bytes as it is, and a longer one as its beginning and "…", together at
// most n bytes.
func Clip(s string, n int) string {
	const mark = "…"
	if len(s) <= n {
		return s
	}
	return Cut(s, n-len(mark)) + mark
}

// LeftOut returns the line that stands for n bytes, segments or items that are not shown. how says how to
// read them; "" if they cannot be read.
func LeftOut(n int64, unit, how string) string {
	if how != "" {
		how = ": " + how
	}
	return fmt.Sprintf("[... %d %s left out%s ...]", n, unit, how)
}
