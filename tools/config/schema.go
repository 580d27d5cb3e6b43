package config

import _ "embed"

//go:embed config.schema.json
var configSchema []byte

// Schema is a JSON Schema (2020-12) of the config file, for editors. A test compares it with the structs.
func Schema() []byte { return configSchema }
