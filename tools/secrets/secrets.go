package secrets

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp/syntax"
	"strings"
	"sync/atomic"

	"runnel/rpc/rawjson"
)

const (
	// minValue is the least length of a value in bytes. A shorter one is part of much other text, where the
	// masks would reveal it.
	minValue = 6
	// maxValue is the greatest length of a value in bytes. Text that may become it is held back, and its
	// spellings take memory.
	maxValue = 16 << 10
	// maxUndecided is how many characters a pattern may hold back before it is known whether it matches.
	maxUndecided = 4 << 10
)

// Set holds what must not be shown. A nil Set is empty: its methods return their arguments. Make one with
// New, or from a config file with config.Config.MakeSecrets.
type Set struct {
	given  given
	all    *machine
	values *machine // without the patterns; nil if there are no values
}

// given is the source of a Set.
type given struct {
	Values   [][]byte // bytes, in JSON as base64: a variable need not be UTF-8
	Patterns []string
}

// New makes a Set of values and patterns (RE2); nil if there are none. It ignores empty values. Other values
// must pass CheckValue, and patterns CheckPattern. Errors do not show values.
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
			re, err := syntax.Parse(s, syntax.Perl)
			if err != nil {
				return nil, errors.New("a value is too long to be masked in all its spellings")
			}
			literals = append(literals, re)
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

// CheckValue returns an error if a value is too short (6 bytes are needed) or too long (16 KiB are allowed)
// to be masked.
func CheckValue(value string) error {
	switch n := len(value); {
	case n < minValue:
		return fmt.Errorf("its value has %d bytes: so short a text would be masked in much that is not "+
			"secret (%d bytes or more can be masked)", n, minValue)
	case n > maxValue:
		return fmt.Errorf("its value has %d bytes (the limit is %d)", n, maxValue)
	}
	return nil
}

// CheckPattern returns an error if a pattern is not a regular expression, matches very short text, or would
// hold back text without a limit.
func CheckPattern(pattern string) error {
	_, err := parse(pattern)
	return err
}

// parse parses a pattern for CheckPattern and New.
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
		return nil, fmt.Errorf("it also matches text of fewer than %d characters, which would mask parts "+
			"of everything", len(mask))
	case n < 0:
		return nil, fmt.Errorf("an unlimited repetition is followed by something, so that text would be " +
			"held back without a limit: limit it, such as {0,100} instead of *, or drop what follows it")
	case n > maxUndecided:
		return nil, fmt.Errorf("up to %d characters would be held back before it is known whether they "+
			"match (the limit is %d)", n, maxUndecided)
	}
	return re, nil
}

// String returns a text with its secrets masked.
func (s *Set) String(text string) string {
	if s == nil || text == "" {
		return text
	}
	return string(s.all.text([]byte(strings.ToValidUTF8(text, "\uFFFD"))))
}

// Stream returns a Stream for one text that comes in pieces; nil for a nil Set.
func (s *Set) Stream() *Stream {
	if s == nil {
		return nil
	}
	return newStream(s.all)
}

// MarshalJSON encodes the Set for another process that must mask the same. The JSON contains all secrets.
func (s *Set) MarshalJSON() ([]byte, error) { return json.Marshal(s.given) }

// UnmarshalJSON decodes what MarshalJSON has encoded.
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

// Current holds the current Set, which a changed config replaces. A nil Current has none. Use it where
// secrets must stay masked after the config was read again.
type Current struct{ set atomic.Pointer[Set] }

// Set returns the current Set, nil if there is none.
func (c *Current) Set() *Set {
	if c == nil {
		return nil
	}
	return c.set.Load()
}

// Replace makes s the current Set.
func (c *Current) Replace(s *Set) { c.set.Store(s) }

// Writer returns a writer that masks secrets on their way to a log. Each Write is one line, of JSON or of
// text.
func (c *Current) Writer(to io.Writer) io.Writer { return &lines{c, to} }

type lines struct {
	c  *Current
	to io.Writer
}

func (l *lines) Write(line []byte) (int, error) {
	masked := line
	if s := l.c.Set(); s != nil {
		body, end := bytes.CutSuffix(line, []byte("\n"))
		if masked = s.JSON(body); end {
			masked = append(bytes.Clone(masked), '\n')
		}
	}
	if _, err := l.to.Write(masked); err != nil {
		return 0, err
	}
	return len(line), nil
}

// minBinary is the least length of a text that may count as base64, in bytes: a shorter one may be a word.
const minBinary = 64

// JSON returns a JSON text with the secrets in its strings, names and numbers masked, or the text itself if
// there are none. If it is not valid JSON, it is masked as text.
func (s *Set) JSON(value json.RawMessage) json.RawMessage {
	switch {
	case s == nil || len(value) == 0:
		return value
	case !json.Valid(value):
		return s.all.text(value)
	}
	return rawjson.Rewrite(value, s.inJSON)
}

// inJSON masks one string of a JSON value. In an image or a file in base64 only values count, since a pattern
// may match any such text. One with a secret value is replaced by the base64 of the mask, because hosts
// refuse a message with invalid base64.
func (s *Set) inJSON(name, text string) string {
	if name != "data" && name != "blob" || len(text) < minBinary {
		return s.String(text)
	}
	if _, err := base64.StdEncoding.DecodeString(text); err != nil {
		return s.String(text)
	}
	if s.values == nil || len(text) == len(s.values.text([]byte(text))) {
		return text
	}
	return base64.StdEncoding.EncodeToString([]byte(mask))
}

// Holds reports whether a JSON text contains a secret. Use it to keep a text only if it has none.
func (s *Set) Holds(value json.RawMessage) bool { return !bytes.Equal(s.JSON(value), value) }
