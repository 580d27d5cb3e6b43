package tools

import _ "embed"

//go:embed config.schema.json
var configSchema []byte

// ConfigSchema is a JSON Schema (2020-12) of the config file, for editors. A test holds it against the structs.
func ConfigSchema() []byte { return configSchema }
