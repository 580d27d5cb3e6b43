package config

import (
	"encoding/json"
)

// Object is a JSON object that keeps the order in which its keys were written: a model reads the
// arguments of a tool in that order. In YAML it is a mapping, whatever it holds.
type Object json.RawMessage

// MarshalJSON returns the object as it is.
func (o Object) MarshalJSON() ([]byte, error) { return json.RawMessage(o).MarshalJSON() }

// UnmarshalJSON takes the object as it is; null means no object.
func (o *Object) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		*o = nil
		return nil
	}
	return (*json.RawMessage)(o).UnmarshalJSON(data)
}
