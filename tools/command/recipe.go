package command

import "runnel/tools/config"

// Recipe is all that makes a command: for the supervisor of a call that is detached. What the system takes as it is stands in bytes,
// which are base64 in JSON: that would make U+FFFD of what is not UTF-8.
type Recipe struct {
	Tool    string
	Config  config.Command // but for Command
	Command [][]byte
	Dir     []byte
	Env     []byte // variables with a NUL between two
}
