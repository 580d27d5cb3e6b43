package inputs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"runnel/internal/shorten"
)

// Argument is the value of one argument as text: a list for an array, otherwise one string.
type Argument struct {
	Values []string
	List   bool
}

// Joined returns the argument as one string, with one element of an array per line.
func (a Argument) Joined() string { return strings.Join(a.Values, "\n") }

// maxQuoted is how much of an argument a question shows, in bytes: a person reads it in one line.
const maxQuoted = 200

// Quoted returns the argument for a person: in quotes, so that it is clear what the model has said, and with
// every character that could hide or move others as its escape.
func (a Argument) Quoted() string {
	said := strings.Join(a.Values, " ")
	quoted := strconv.QuoteToGraphic(shorten.Cut(said, maxQuoted))
	if n := len(said) - maxQuoted; n > 0 {
		quoted += fmt.Sprintf(" (and %d more bytes)", n)
	}
	return quoted
}

// Arguments are those that have a value, by name. null and the empty array have none.
type Arguments map[string]Argument

// Arguments reads a call's arguments and fills in defaults. It ignores arguments that the tool's input
// does not declare.
func (in *Inputs) Arguments(raw json.RawMessage) (Arguments, error) {
	given := map[string]json.RawMessage{}
	if len(bytes.TrimSpace(raw)) > 0 {
		if err := json.Unmarshal(raw, &given); err != nil {
			return nil, fmt.Errorf("reading the arguments: %w", err)
		}
	}
	args := Arguments{}
	for _, name := range in.Names {
		v, ok := given[name]
		if !ok {
			if v, ok = in.Defaults[name]; !ok {
				continue
			}
		}
		a, err := Spell(v)
		if err != nil {
			return nil, fmt.Errorf("argument %q: %w", name, err)
		}
		if len(a.Values) > 0 {
			args[name] = a
		}
	}
	return args, nil
}

// Spell converts a JSON value to text: text as it is, a number as it was written, true or
// false, an object as JSON. null has no value.
func Spell(v json.RawMessage) (a Argument, err error) {
	// Starts empty: json.Unmarshal would write into the bytes of an element that is there, and v may be a
	// default.
	var items []json.RawMessage
	if a.List = bytes.HasPrefix(v, []byte("[")); !a.List {
		items = []json.RawMessage{v}
	} else if err := json.Unmarshal(v, &items); err != nil {
		return a, err
	}
	for _, item := range items {
		var text string
		var compact bytes.Buffer
		if err := json.Compact(&compact, item); err != nil {
			return a, err
		}
		switch text = compact.String(); text[0] {
		case 'n':
			continue
		case '"':
			if err := json.Unmarshal(item, &text); err != nil {
				return a, err
			}
		}
		a.Values = append(a.Values, text)
	}
	return a, nil
}
