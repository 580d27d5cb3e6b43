package schema

import (
	"fmt"
	"regexp"
	"regexp/syntax"
)

// The patterns of a schema, all together. Written out, most have some dozens of instructions; with counts, such as (x{100}){10}, a few
// bytes have millions, and matching takes each of them for each byte of the text.
const (
	maxPatternBytes = 16 << 10
	maxInstructions = 50_000
)

// patternSize is how many instructions a pattern is compiled to, about.
type patternSize int

// steps are those of matching a text of so many bytes. An instruction and a byte take some 10 ns, a step of effort 1 µs.
func (s patternSize) steps(bytes int) int { return int(s) * (bytes + 1) / 100 }

// addPattern compiles a pattern of a schema, unless all of them together are too large.
func (c *Compiled) addPattern(pattern string, place []string) (*regexp.Regexp, patternSize, error) {
	tooLarge := &Error{place, fmt.Sprintf("the schema explodes: its patterns are larger than %d bytes or %d steps together", maxPatternBytes, maxInstructions)}
	if c.patternBytes += len(pattern); c.patternBytes > maxPatternBytes {
		return nil, 0, tooLarge
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, 0, &Error{place, fmt.Sprintf("%q is no regular expression: %v", clip(pattern), err)}
	}
	size := instructions(parsed)
	if c.instructions += size; c.instructions > maxInstructions {
		return nil, 0, tooLarge
	}
	compiled, err := regexp.Compile(pattern)
	if err != nil {
		return nil, 0, &Error{place, fmt.Sprintf("%q is no regular expression: %v", clip(pattern), err)}
	}
	return compiled, patternSize(size), nil
}

// instructions are about those of a compiled pattern, and not many more than maxInstructions.
func instructions(re *syntax.Regexp) int {
	n := 1
	switch re.Op {
	case syntax.OpLiteral:
		n = len(re.Rune)
	case syntax.OpCharClass:
		n += len(re.Rune) / 16 // the ends of its ranges: for their memory
	}
	for _, part := range re.Sub {
		n = min(n+instructions(part), maxInstructions+1)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max) + 1
	}
	return min(n, maxInstructions+1)
}
