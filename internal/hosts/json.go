package hosts

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// jsonText is JSON, with comments and trailing commas if the host reads them. The library finds the place of
// everything, but cannot insert a member without reformatting its neighbours, so that is done here.
type jsonText struct{ comments bool }

var byteOrderMark = []byte("\ufeff") // editors on Windows write it

func (f jsonText) decode(text []byte) (map[string]any, error) {
	values := map[string]any{}
	v, _, err := f.parse(text)
	if err != nil || v == nil {
		return values, err
	}
	v.Standardize()
	d := json.NewDecoder(bytes.NewReader(v.Pack()))
	d.UseNumber()
	return values, d.Decode(&values)
}

// parse parses a text after its byte order mark, which has skipped bytes. v is nil for an empty text.
func (f jsonText) parse(text []byte) (v *hujson.Value, skipped int, err error) {
	body := bytes.TrimPrefix(text, byteOrderMark)
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, len(text) - len(body), nil
	}
	if err := checkDepth(body); err != nil {
		return nil, 0, err
	}
	root, err := hujson.Parse(bytes.Clone(body)) // it refers to the bytes
	if err != nil {
		return nil, 0, errors.New(strings.TrimPrefix(err.Error(), "hujson: "))
	}
	if !f.comments && !root.IsStandard() {
		return nil, 0, errors.New("it has comments or trailing commas, and its host reads plain JSON: it " +
			"sees no server in this file")
	}
	o, ok := root.Value.(*hujson.Object)
	if !ok {
		return nil, 0, errors.New("it is not a JSON object")
	}
	seen := map[string]bool{}
	for _, m := range o.Members {
		name := m.Name.Value.(hujson.Literal).String()
		if seen[name] {
			return nil, 0, fmt.Errorf("it has %q twice", name)
		}
		seen[name] = true
	}
	return &root, len(text) - len(body), nil
}

// member returns the index of an object's member, -1 if there is none of that name.
func member(o *hujson.Object, name string) int {
	for n, m := range o.Members {
		if m.Name.Value.(hujson.Literal).String() == name {
			return n
		}
	}
	return -1
}

func (f jsonText) insert(text []byte, key, name string, entry []field) (at int, piece string, err error) {
	root, skipped, err := f.parse(text)
	if err != nil {
		return 0, "", err
	}
	if root == nil {
		return len(text), "{\n  " + quote(key) + ": {\n" + jsonEntry(name, entry, "    ", "  ") +
			"\n  }\n}\n", nil
	}
	body := text[skipped:]
	o := root.Value.(*hujson.Object)
	unit := "  "
	if first := lineIndent(body, o); first != "" {
		unit = first
	}
	indent := unit
	made := func(indent string) string {
		return indent + quote(key) + ": {\n" + jsonEntry(name, entry, indent+unit, unit) + "\n" + indent + "}"
	}
	object := root
	if n := member(o, key); n >= 0 {
		object = &o.Members[n].Value
		if o, _ = object.Value.(*hujson.Object); o == nil {
			return 0, "", fmt.Errorf("%q is not an object", key)
		}
		indent = indentAt(body, object.StartOffset) + unit
		made = func(indent string) string { return jsonEntry(name, entry, indent, unit) }
	}
	if first := lineIndent(body, o); first != "" {
		indent = first
	}
	// The piece goes to the beginning of the object: there it never needs a comma before it.
	at = object.StartOffset + 1
	onNewLine := len(o.Members) == 0
	if line, _, ok := bytes.Cut(body[at:endOfGap(o, object)], []byte("\n")); ok && isExtra(line) {
		at, onNewLine = at+len(bytes.TrimSuffix(line, []byte("\r"))), true
	}
	comma := ""
	if len(o.Members) > 0 {
		comma = ","
	}
	switch {
	case !onNewLine: // the object begins on one line
		return skipped + at, compact(made("")) + comma + " ", nil
	case bytes.Contains(body[at:endOfGap(o, object)], []byte("\n")):
		return skipped + at, "\n" + made(indent) + comma, nil
	default:
		return skipped + at, "\n" + made(indent) + comma + "\n" + indentAt(body, object.StartOffset), nil
	}
}

// endOfGap returns where the first member of an object begins or, if it has none, its closing brace.
func endOfGap(o *hujson.Object, v *hujson.Value) int {
	if len(o.Members) > 0 {
		return o.Members[0].Name.StartOffset
	}
	return v.EndOffset - 1
}

// isExtra reports whether the rest of a line is only blanks and complete comments.
func isExtra(line []byte) bool {
	v, err := hujson.Parse(append(bytes.Clone(line), "\n0"...))
	return err == nil && len(v.AfterExtra) == 0
}

// lineIndent returns the whitespace before the first member of an object, "" if the member does not begin a
// line.
func lineIndent(body []byte, o *hujson.Object) string {
	if len(o.Members) == 0 {
		return ""
	}
	at := o.Members[0].Name.StartOffset
	line := string(body[bytes.LastIndexByte(body[:at], '\n')+1 : at])
	if at == 0 || indented(line) != line || !bytes.Contains(body[:at], []byte("\n")) {
		return ""
	}
	return line
}

// indentAt returns the whitespace at the beginning of the line of a position.
func indentAt(body []byte, at int) string {
	return indented(string(body[bytes.LastIndexByte(body[:at], '\n')+1 : at]))
}

// jsonEntry writes an entry, one field per line.
func jsonEntry(name string, entry []field, indent, unit string) string {
	var b strings.Builder
	b.WriteString(indent + quote(name) + ": {")
	for n, f := range entry {
		if n > 0 {
			b.WriteString(",")
		}
		b.WriteString("\n" + indent + unit + quote(f.name) + ": " + quoteList(f.value))
	}
	return b.String() + "\n" + indent + "}"
}

// quoteList is quote with blanks in lists and maps, as people write them.
func quoteList(v any) string {
	var words []string
	switch v := v.(type) {
	case []string:
		for _, word := range v {
			words = append(words, quote(word))
		}
		return "[" + strings.Join(words, ", ") + "]"
	case map[string]string:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			words = append(words, quote(name)+": "+quote(v[name]))
		}
		return "{" + strings.Join(words, ", ") + "}"
	}
	return quote(v)
}

// compact puts a member on one line.
func compact(member string) string {
	lines := strings.Split(member, "\n")
	for n := range lines {
		lines[n] = strings.TrimSpace(lines[n])
		if n > 0 && strings.HasSuffix(lines[n-1], ",") {
			lines[n] = " " + lines[n]
		}
	}
	return strings.Join(lines, "")
}

func (f jsonText) remove(text []byte, key, name string, withKey bool) ([]byte, error) {
	root, skipped, err := f.parse(text)
	if err != nil || root == nil {
		return text, err
	}
	o := root.Value.(*hujson.Object)
	outer := member(o, key)
	if outer < 0 {
		return text, nil
	}
	inner, ok := o.Members[outer].Value.Value.(*hujson.Object)
	if !ok {
		return nil, fmt.Errorf("%q is not an object", key)
	}
	n := member(inner, name)
	if n < 0 {
		return text, nil
	}
	body := text[skipped:]
	if withKey && len(inner.Members) == 1 {
		body = cut(body, o, outer)
	} else {
		body = cut(body, inner, n)
	}
	return append(bytes.Clone(text[:skipped]), body...), nil
}

// cut removes a member from a text, with its comma and the blanks before it. For the last member, it removes
// the comma before it.
func cut(body []byte, o *hujson.Object, n int) []byte {
	m := o.Members[n]
	from, to := m.Name.StartOffset, m.Value.EndOffset
	for from > 0 && strings.IndexByte(" \t\r\n", body[from-1]) >= 0 {
		from--
	}
	after := to + len(m.Value.AfterExtra)
	switch {
	case body[after] == ',':
		to = after + 1
	case n > 0:
		previous := o.Members[n-1].Value
		comma := previous.EndOffset + len(previous.AfterExtra)
		return bytes.Join([][]byte{body[:comma], body[comma+1 : from], body[to:]}, nil)
	}
	return bytes.Join([][]byte{body[:from], body[to:]}, nil)
}
