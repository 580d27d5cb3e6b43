package config

import "encoding/json"

// Object is a JSON object that keeps the order in which its keys were written: a model reads the arguments of a tool in that order. In YAML
// it is any mapping. Empty means none.
type Object = json.RawMessage
