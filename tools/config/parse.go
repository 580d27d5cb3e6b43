package config

import (
	"io"
	"strings"
)

// Parse reads the text of a config file over the defaults. It is strict: unknown keys and values of a wrong type are errors. The error joins
// all of them, each with its place.
//
// The YAML library parses, and its tree is decoded here, for three reasons: an error names the place and what is allowed there; text stays as
// it was written (in an argv, 1.10 is not 1.1, and yes is not true); and errors that are found later need the places, too.
func Parse(file string, text []byte) (*Config, error) {
	c := Default()
	c.places = map[string]place{}
	c.file, c.lines = file, strings.Split(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n")
	if len(text) > MaxFile {
		return nil, c.mistake(position{1, 1}, "the file is too large", allow(Size(MaxFile).String()+" at most"))
	}
	if err := (&decoder{config: c}).decode(text); err != nil {
		return nil, err
	}
	return c, nil
}

// MaxFile bounds the text that the library parses, in bytes.
const MaxFile = 1 << 20

// Read reads the text of a config file for Parse. It stops where Parse refuses the file as too large, since /dev/zero never ends.
func Read(r io.Reader) ([]byte, error) { return io.ReadAll(io.LimitReader(r, MaxFile+1)) }
