package config

import "encoding/json"

// Object is a JSON object with its keys in the order of the file, since a model reads the arguments of a tool in that order. In YAML it is any
// mapping. Empty means none.
type Object = json.RawMessage
