package text

import (
	"fmt"
	"regexp"
	"regexp/syntax"
)

// maxInstructions bounds a compiled pattern. Most have some dozens of instructions; with counts, such as
// (a?){1000}, a few bytes make thousands, and each of them may take 10 ns for each byte of a text.
const maxInstructions = 1000

// CompilePattern compiles a pattern (RE2) that a stranger has written. It refuses one that would take too
// long for long lines.
func CompilePattern(pattern string) (*regexp.Regexp, error) {
	parsed, err := syntax.Parse(pattern, syntax.Perl) // as regexp.Compile does
	if err != nil {
		return nil, fmt.Errorf("not a valid regular expression (RE2): %w", err)
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, fmt.Errorf("not a valid regular expression (RE2): %w", err)
	}
	if n := len(program.Inst); n > maxInstructions {
		return nil, fmt.Errorf("the regular expression is too large: it has %d steps, and the limit is "+
			"%d; use smaller counts", n, maxInstructions)
	}
	return regexp.Compile(pattern)
}
