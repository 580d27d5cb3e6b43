package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// A pattern is JSON that a message must equal, member for member, but for the strings
//
//	"$any"     any value
//	"$string"  any string
//	"$int"     any integer
//	"$time"    an RFC 3339 time
//	"$uuid"    a version 4 UUID
//	"$re:RE"   a string in which the regular expression RE is found
//	"$NAME1"   a name that ends in a digit: any string at first, the same string from then on
//
// the member "...": true, which allows members that are not named, and {"$set": [...]},
// an array in any order. Numbers are compared as they are written.
type pattern struct {
	text  string
	value any
}

func parsePattern(text string) (pattern, error) {
	v, err := decodeJSON([]byte(text))
	return pattern{text, v}, err
}

func decodeJSON(b []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("more than one JSON value on the line")
	}
	return v, nil
}

var (
	captureName = regexp.MustCompile(`^\$[a-z]+[0-9]+$`)
	integer     = regexp.MustCompile(`^-?[0-9]+$`)
	uuidV4      = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
)

// match compares a line with the pattern. What it captures is added to captures only if the whole line
// matches.
func (p pattern) match(line []byte, captures map[string]string) error {
	v, err := decodeJSON(line)
	if err != nil {
		return err
	}
	tried := maps.Clone(captures)
	if err := matchValue("", p.value, v, tried); err != nil {
		return err
	}
	maps.Copy(captures, tried)
	return nil
}

func matchValue(at string, want, got any, captures map[string]string) error {
	switch want := want.(type) {
	case string:
		if strings.HasPrefix(want, "$") {
			return matchWildcard(at, want, got, captures)
		}
	case map[string]any:
		if set, ok := want["$set"]; ok {
			return matchSet(at, set.([]any), got, captures)
		}
		object, ok := got.(map[string]any)
		if !ok {
			return mismatch(at, want, got)
		}
		open := want["..."] != nil
		for _, name := range slices.Sorted(maps.Keys(want)) {
			if name == "..." {
				continue
			}
			member, ok := object[name]
			if !ok {
				return fmt.Errorf("%s.%s is missing", at, name)
			}
			if err := matchValue(at+"."+name, want[name], member, captures); err != nil {
				return err
			}
		}
		for _, name := range slices.Sorted(maps.Keys(object)) {
			if _, ok := want[name]; !ok && !open {
				return fmt.Errorf("%s.%s is not expected", at, name)
			}
		}
		return nil
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(want) {
			return mismatch(at, want, got)
		}
		for i := range want {
			if err := matchValue(fmt.Sprintf("%s[%d]", at, i), want[i], list[i], captures); err != nil {
				return err
			}
		}
		return nil
	}
	if !reflect.DeepEqual(want, got) {
		return mismatch(at, want, got)
	}
	return nil
}

func matchSet(at string, want []any, got any, captures map[string]string) error {
	list, ok := got.([]any)
	if !ok || len(list) != len(want) {
		return mismatch(at, want, got)
	}
	left := slices.Clone(list)
	for _, w := range want {
		i := slices.IndexFunc(left, func(g any) bool {
			tried := maps.Clone(captures)
			if matchValue(at, w, g, tried) != nil {
				return false
			}
			maps.Copy(captures, tried)
			return true
		})
		if i < 0 {
			return mismatch(at, w, left)
		}
		left = slices.Delete(left, i, i+1)
	}
	return nil
}

func matchWildcard(at, want string, got any, captures map[string]string) error {
	s, isString := got.(string)
	number, isNumber := got.(json.Number)
	ok := false
	switch {
	case want == "$any":
		ok = true
	case want == "$string":
		ok = isString
	case want == "$int":
		ok = isNumber && integer.MatchString(number.String())
	case want == "$time":
		_, err := time.Parse(time.RFC3339Nano, s)
		ok = isString && err == nil
	case want == "$uuid":
		ok = isString && uuidV4.MatchString(s)
	case strings.HasPrefix(want, "$re:"):
		re, err := regexp.Compile(want[len("$re:"):])
		if err != nil {
			return err
		}
		ok = isString && re.MatchString(s)
	case captureName.MatchString(want):
		known, again := captures[want]
		if ok = isString && (!again || known == s); ok {
			captures[want] = s
		}
		if again {
			want = known
		}
	default:
		return fmt.Errorf("%s: unknown wildcard %s", at, want)
	}
	if !ok {
		return mismatch(at, want, got)
	}
	return nil
}

func mismatch(at string, want, got any) error {
	w, _ := json.Marshal(want)
	g, _ := json.Marshal(got)
	return fmt.Errorf("%s is %s, want %s", at, clipLine(g), clipLine(w))
}

func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, line string
		ok            bool
	}{
		{`{"a":1}`, `{"a":1}`, true},
		{`{"a":1}`, `{"a":1,"b":2}`, false},
		{`{"a":1,"...":true}`, `{"a":1,"b":2}`, true},
		{`{"a":1,"b":2}`, `{"a":1}`, false},
		{`{"a":9007199254740993}`, `{"a":9007199254740992}`, false},
		{`{"a":"$int"}`, `{"a":1.5}`, false},
		{`{"a":"$any"}`, `{}`, false},
		{`{"a":"$x1","b":"$x1"}`, `{"a":"s","b":"s"}`, true},
		{`{"a":"$x1","b":"$x1"}`, `{"a":"s","b":"t"}`, false},
		{`{"a":{"$set":[1,2]}}`, `{"a":[2,1]}`, true},
		{`{"a":{"$set":[1,2]}}`, `{"a":[2,2]}`, false},
		{`[1,2]`, `[2,1]`, false},
		{`{"a":"$re:^exit code 2\n"}`, `{"a":"exit code 2\nlast line"}`, true},
		{`{"a":null}`, `{"a":null}`, true},
	} {
		p, err := parsePattern(c.pattern)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.match([]byte(c.line), map[string]string{}); (err == nil) != c.ok {
			t.Errorf("%s on %s: %v", c.pattern, c.line, err)
		}
	}
}
