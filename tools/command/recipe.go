package command

import "runnel/tools/config"

// Recipe describes a command to the supervisor of a detached call, as JSON. Arguments and variables are byte
// slices, which JSON has in base64: in a JSON string, bytes that are not UTF-8 would become U+FFFD.
type Recipe struct {
	Tool    string
	Config  config.Command // except Command
	Command [][]byte
	Dir     []byte
	Env     []byte // variables, separated by NUL
}
