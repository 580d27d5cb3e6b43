package config

import (
	"io"

	"runnel/tools/config/strict"
)

// Error is an error about an invalid value. Config.Locate adds the value's place.
type Error = strict.Error

// Wrong makes an Error without a key.
func Wrong(allowed, problem string, args ...any) error {
	return strict.Wrong(allowed, problem, args...)
}

// Join returns the path of a key below another path.
func Join(path, key string) string { return strict.Join(path, key) }

// JoinErrors joins errors in the order of the file.
func JoinErrors(errs []error) error { return strict.JoinErrors(errs) }

// Parse reads the text of a config file over the defaults. It is strict: unknown keys and values of a wrong
// type are errors. The error joins all of them, each with its place.
func Parse(file string, text []byte) (*Config, error) {
	c := Default()
	c.source = strict.NewFile(file, text)
	if len(text) > MaxFile {
		return nil, c.source.TooLarge(Size(MaxFile).String())
	}
	if err := c.source.Decode(text, c, strict.Options{Instead: instead, List: list}); err != nil {
		return nil, err
	}
	return c, nil
}

// MaxFile bounds the text that the library parses, in bytes.
const MaxFile = 1 << 20

// Read reads the text of a config file for Parse. It stops where Parse refuses the file as too large, since
// /dev/zero never ends.
func Read(r io.Reader) ([]byte, error) { return io.ReadAll(io.LimitReader(r, MaxFile+1)) }
