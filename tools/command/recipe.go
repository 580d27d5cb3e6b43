package command

import (
	"encoding/json"

	"runnel/tools/config"
)

// Recipe is all that makes a command: for the supervisor of a call that is detached.
type Recipe struct {
	Tool    string
	Config  config.Command // but for Command
	Command []RawText
	Dir     RawText
	Env     RawText // variables with a NUL between two
}

// RawText is a path or what else the system takes as it is: JSON would make U+FFFD of what is not UTF-8.
type RawText string

// MarshalJSON writes the bytes as base64.
func (t RawText) MarshalJSON() ([]byte, error) { return json.Marshal([]byte(t)) }

// UnmarshalJSON reads what MarshalJSON wrote.
func (t *RawText) UnmarshalJSON(encoded []byte) error {
	var raw []byte
	err := json.Unmarshal(encoded, &raw)
	*t = RawText(raw)
	return err
}
