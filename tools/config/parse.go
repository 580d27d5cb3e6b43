package config

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
)

// Parse reads the text of a config file over the defaults. Reading is strict: a key that is unknown
// and a value of another type are errors, of which it reports all, each a *FileError.
//
// The YAML library parses; its tree is decoded here, because an error must tell the place and what is
// allowed there, because text must stay what was written (1.10 is not 1.1, and yes is not true, in an argv),
// and because errors that are found later need the places too.
func Parse(file string, text []byte) (*Config, error) {
	c := Default()
	c.file, c.lines = file, strings.Split(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n")
	if err := c.tooMuch(text); err != nil {
		return nil, err
	}
	if err := (&decoder{config: c}).decode(text); err != nil {
		return nil, err
	}
	// Only mistakes are told with their places, and most files have none: of 50 tools there are a thousand.
	c.places = sync.OnceValue(func() map[string]place {
		again := &decoder{config: Default(), places: map[string]place{}}
		_ = again.decode(text) // it went well before
		return again.places
	})
	return c, nil
}

const (
	// Bounds on what the library is given to parse. It may have bounds of its own, but not in our words.
	maxFile = 1 << 20
	maxOpen = 1000 // brackets and dashes, also in text and comments: well above maxDepth

	// Bounds on what is decoded then, because aliases can make very much of a small file.
	maxNodes = 100_000 // thousands of tools
	maxDepth = 100     // deeper than any schema that people write
)

// tooMuch refuses a text that is too large to parse, or nested too deep.
func (c *Config) tooMuch(text []byte) error {
	if len(text) > maxFile {
		return c.mistake(position{1, 1}, "the file is too large", allow(Size(maxFile).String()+" at most"))
	}
	at := position{1, 0}
	brackets := 0 // that are open
	dashes := 0   // one behind the other: "- - - a" is a list in a list in a list
	for i, b := range text {
		at.column++
		switch b {
		case '[', '{':
			brackets++
		case ']', '}':
			brackets = max(brackets-1, 0)
		case '-':
			if bytes.HasPrefix(text[i:], []byte("- ")) {
				dashes++
			}
		case '\n':
			at = position{at.line + 1, 0}
		}
		if b != '-' && b != ' ' {
			dashes = 0
		}
		if brackets > maxOpen || dashes > maxOpen {
			return c.mistake(at, "the file is nested too deep", allow(fmt.Sprintf("%d levels at most", maxDepth)))
		}
	}
	return nil
}
