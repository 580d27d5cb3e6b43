package secrets

import (
	"encoding/json"
	"fmt"
	"regexp/syntax"
	"strings"
)

const (
	// minValue is the least length of a value in bytes: a shorter one stands in much other text, and the holes would give it away.
	minValue = 6
	// maxValue is how long a value may be, in bytes: what may be one is held back, and its spellings take memory.
	maxValue = 16 << 10
	// maxUndecided is how many characters of text a pattern may hold back before it is known whether it matches.
	maxUndecided = 4 << 10
)

// Set is what must not be shown. A nil Set has nothing, and its methods return what they are given.
type Set struct {
	given  given
	all    *machine
	values *machine // without the patterns; nil if there are no values
}

// given is what a Set is made of.
type given struct {
	Values   [][]byte // bytes, which are base64 in JSON: a variable need not be UTF-8
	Patterns []string
}

// New makes a Set of values and patterns (RE2), nil if there are none. Empty values are left out. Each of the others must have a length
// between minValue and maxValue, and each pattern must pass CheckPattern; what is wrong is said without a word of a value.
func New(values, patterns []string) (*Set, error) {
	var literals, list []*syntax.Regexp
	g := given{Patterns: patterns}
	for _, v := range values {
		if v == "" {
			continue
		}
		if err := CheckValue(v); err != nil {
			return nil, err
		}
		g.Values = append(g.Values, []byte(v))
		for _, s := range spellings(v) {
			if len(s) >= minValue {
				literals = append(literals, &syntax.Regexp{Op: syntax.OpLiteral, Rune: []rune(s)})
			}
		}
	}
	for _, p := range patterns {
		re, err := parse(p)
		if err != nil {
			return nil, err
		}
		list = append(list, re)
	}
	if len(literals)+len(list) == 0 {
		return nil, nil
	}
	s := &Set{given: g}
	var err error
	if len(literals) > 0 {
		if s.values, err = newMachine(literals); err != nil {
			return nil, err
		}
	}
	if s.all = s.values; len(list) > 0 {
		s.all, err = newMachine(append(literals, list...))
	}
	return s, err
}

// CheckValue says what is wrong with the length of a value.
func CheckValue(value string) error {
	switch n := len(value); {
	case n < minValue:
		return fmt.Errorf("its value has %d bytes: so short a text would be masked in much that is no secret (%d bytes or more can be masked)", n, minValue)
	case n > maxValue:
		return fmt.Errorf("its value has %d bytes (the limit is %d)", n, maxValue)
	}
	return nil
}

// CheckPattern says what is wrong with a pattern.
func CheckPattern(pattern string) error {
	_, err := parse(pattern)
	return err
}

// parse reads a pattern, and refuses one that may match nothing or hold back text without end.
func parse(pattern string) (*syntax.Regexp, error) {
	re, err := syntax.Parse(pattern, syntax.Perl) // as regexp.Compile does
	if err != nil {
		return nil, err
	}
	m, err := newMachine([]*syntax.Regexp{re})
	if err != nil {
		return nil, err
	}
	switch n := m.undecided(); {
	case m.shortest(len(mask)) < len(mask):
		return nil, fmt.Errorf("it also matches text of fewer than %d characters, which would make holes in all that is shown", len(mask))
	case n < 0:
		return nil, fmt.Errorf("a repetition without an end has something after it, so that text would be held back without an end: bound it, such as {0,100} in the place of *, or leave out what follows")
	case n > maxUndecided:
		return nil, fmt.Errorf("up to %d characters would be held back before it is known whether they match (the limit is %d)", n, maxUndecided)
	}
	return re, nil
}

// text returns text with its secrets masked: p itself if it has none. p is valid UTF-8.
func (s *Set) text(p []byte) []byte {
	if s == nil {
		return p
	}
	return s.all.text(p)
}

// String returns text with its secrets masked.
func (s *Set) String(text string) string {
	if s == nil || text == "" {
		return text
	}
	return string(s.all.text([]byte(strings.ToValidUTF8(text, "\uFFFD"))))
}

// Stream returns a Stream for one text, nil for a nil Set.
func (s *Set) Stream() *Stream {
	if s == nil {
		return nil
	}
	return newStream(s.all)
}

// MarshalJSON writes the Set for a process that shall mask the same. It holds all secrets.
func (s *Set) MarshalJSON() ([]byte, error) { return json.Marshal(s.given) }

// UnmarshalJSON reads what MarshalJSON wrote.
func (s *Set) UnmarshalJSON(b []byte) error {
	var g given
	if err := json.Unmarshal(b, &g); err != nil {
		return err
	}
	values := make([]string, len(g.Values))
	for i, v := range g.Values {
		values[i] = string(v)
	}
	made, err := New(values, g.Patterns)
	if err != nil || made == nil {
		return err
	}
	*s = *made
	return nil
}
