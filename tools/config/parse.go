package config

import (
	"io"
	"strings"
)

// Parse reads the text of a config file over the defaults. Reading is strict: a key that is unknown
// and a value of another type are errors, of which it reports all, each with its place.
//
// The YAML library parses; its tree is decoded here, because an error must tell the place and what is
// allowed there, because text must stay what was written (1.10 is not 1.1, and yes is not true, in an argv),
// and because errors that are found later need the places too.
func Parse(file string, text []byte) (*Config, error) {
	c := Default()
	c.places = map[string]place{}
	c.file, c.lines = file, strings.Split(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n")
	if len(text) > maxFile {
		return nil, c.mistake(position{1, 1}, "the file is too large", allow(Size(maxFile).String()+" at most"))
	}
	if err := (&decoder{config: c}).decode(text); err != nil {
		return nil, err
	}
	return c, nil
}

// maxFile bounds the text that the library parses.
const maxFile = 1 << 20

// Read reads the text of a config file, but no more than Parse needs to refuse one that is too large: /dev/zero never ends.
func Read(r io.Reader) ([]byte, error) { return io.ReadAll(io.LimitReader(r, maxFile+1)) }
