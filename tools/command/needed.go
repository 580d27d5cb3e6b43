package command

import (
	"bytes"
	"regexp/syntax"
	"slices"
	"unicode/utf8"
)

// maxNeeded is how many texts are looked for in a line before its pattern is: for more, the pattern is as
// quick.
const maxNeeded = 8

// neededTexts returns texts of which every match of an expression contains one; nil if there are none, or too
// many. Lines without any are skipped: a log in which ERROR|FATAL is rare is searched ten times as fast.
func neededTexts(pattern string) [][]byte {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil
	}
	return neededOf(re)
}

func neededOf(re *syntax.Regexp) (needed [][]byte) {
	switch {
	case re.Op == syntax.OpLiteral && re.Flags&syntax.FoldCase == 0 &&
		!slices.Contains(re.Rune, utf8.RuneError): // which bytes match that are not UTF-8
		return [][]byte{[]byte(string(re.Rune))}
	case re.Op == syntax.OpCapture, re.Op == syntax.OpPlus, re.Op == syntax.OpRepeat && re.Min > 0:
		return neededOf(re.Sub[0])
	case re.Op == syntax.OpConcat: // that whose shortest text is the longest, since it is the rarest
		for _, sub := range re.Sub {
			if texts := neededOf(sub); shortest(texts) > shortest(needed) {
				needed = texts
			}
		}
	case re.Op == syntax.OpAlternate:
		for _, sub := range re.Sub {
			texts := neededOf(sub)
			if needed = append(needed, texts...); len(texts) == 0 || len(needed) > maxNeeded {
				return nil
			}
		}
	}
	return needed
}

// shortest returns the length of the shortest text, 0 if there is none.
func shortest(texts [][]byte) int {
	n := 0
	for i, text := range texts {
		if i == 0 || len(text) < n {
			n = len(text)
		}
	}
	return n
}

// containsAny reports whether a line contains one of the texts.
func containsAny(line []byte, texts [][]byte) bool {
	return slices.ContainsFunc(texts, func(text []byte) bool { return bytes.Contains(line, text) })
}
