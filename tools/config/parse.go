package config

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"

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

// configSchema is where the keys of the config are described, each on one line. What else describes a key is
// made from it: the help of the flag that sets it and the tables of the manual.
//
//go:embed config.schema.json
var configSchema []byte

// Schema returns a JSON Schema (2020-12) of the config file, for editors. A test compares it with the
// structs.
func Schema() []byte {
	var b bytes.Buffer
	if err := json.Indent(&b, configSchema, "", "  "); err != nil {
		panic("internal error: " + err.Error())
	}
	return b.Bytes()
}

// described is what the schema says of a key.
type described struct {
	Description string
	Default     any
	Properties  map[string]*described
}

// schemaKeys is the part of the schema that describes keys. A server does not need it, so it is decoded when
// first needed.
var schemaKeys = sync.OnceValue(func() *described {
	var d described
	if err := json.Unmarshal(configSchema, &d); err != nil {
		panic("internal error: " + err.Error())
	}
	return &d
})

// Describe returns what the schema says of a key such as limits.maxLine, and the key's default, "" if it has
// none.
func Describe(key string) (words, value string) {
	d := schemaKeys()
	for name := range strings.SplitSeq(key, ".") {
		d = d.Properties[name]
	}
	if d.Default != nil {
		value = fmt.Sprint(d.Default)
	}
	return d.Description, value
}
