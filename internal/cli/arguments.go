package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"runnel/internal/system"
	"runnel/internal/term"
	"runnel/tools/config"
)

// parseArguments builds the arguments of a call from key=value words and a JSON object. A word wins over the
// object. stdin is what @- stands for.
func parseArguments(s term.Form, words []string, object string,
	stdin func() ([]byte, error)) (json.RawMessage, error) {
	if !utf8.ValidString(object + strings.Join(words, "")) {
		return nil, errors.New("the arguments are not UTF-8, as JSON must be; base64 makes text of any bytes")
	}
	arguments := map[string]json.RawMessage{}
	if object != "" {
		object, err := readValue(object, stdin)
		if err != nil {
			return nil, fmt.Errorf("--input: %w", err)
		}
		if json.Unmarshal([]byte(object), &arguments) != nil || arguments == nil {
			return nil, fmt.Errorf("--input: %q is not a JSON object", term.Shorten(object))
		}
	}
	given := map[string]bool{}
	var errs []error
	for _, word := range words {
		key, text, ok := strings.Cut(word, "=")
		if !ok || key == "" {
			errs = append(errs, config.Wrong("key=value, key=@FILE, key=@- for stdin",
				"%q is not an argument", term.Shorten(word)))
			continue
		}
		v, err := argument(s.Find(key), text, stdin)
		if err == nil && given[key] {
			v, err = appendTo(arguments[key], v, s.Find(key))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", key, err))
			continue
		}
		given[key], arguments[key] = true, v
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return json.Marshal(arguments)
}

// maxArgument limits the file of an argument, in bytes: no server takes a longer message.
const maxArgument = 256 << 20

// readValue reads a value: "@FILE" stands for the content of a file, "@-" for that of stdin, and "@@" for a
// literal @.
func readValue(text string, stdin func() ([]byte, error)) (string, error) {
	file, ok := strings.CutPrefix(text, "@")
	if !ok || strings.HasPrefix(file, "@") {
		return file, nil
	}
	var b []byte
	var err error
	if file == "-" {
		file = "stdin"
		b, err = stdin()
	} else {
		b, err = system.ReadNamed(file, maxArgument)
	}
	if err == nil && !utf8.Valid(b) {
		err = fmt.Errorf("%s is not UTF-8, as JSON must be; base64 makes text of any bytes", file)
	}
	return string(b), err
}

// argument reads one value.
func argument(p *term.Field, text string, stdin func() ([]byte, error)) (json.RawMessage, error) {
	text, err := readValue(text, stdin)
	if err != nil {
		return nil, err
	}
	v, err := p.Value(text)
	if err != nil {
		// A file ends with a newline, which is not part of a number.
		if trimmed := strings.TrimSpace(text); trimmed != text {
			return p.Value(trimmed)
		}
	}
	return v, err
}

// appendTo appends the elements of an argument that is given again.
func appendTo(list, more json.RawMessage, p *term.Field) (json.RawMessage, error) {
	var a, b []json.RawMessage
	if !slices.Contains(p.AllTypes(), "array") || json.Unmarshal(list, &a) != nil ||
		json.Unmarshal(more, &b) != nil {
		return nil, errors.New("given twice, and it is not an array")
	}
	return json.Marshal(append(a, b...))
}
