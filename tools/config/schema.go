package config

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
)

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
