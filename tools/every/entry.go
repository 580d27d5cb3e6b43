package every

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"runnel/rpc/mcp"
	"runnel/tools/config"
	"runnel/tools/schema"
)

// Entry is a tool that starts by itself.
type Entry struct {
	Tool      string
	Cron      string
	Arguments json.RawMessage // an object
	Place     string          // keeps equal tools apart on a state: the directory of the config; "" on servers

	schedule *config.Schedule
}

// All returns the entries of a config, in the order of their names. specs describe its tools. The error joins
// those of all entries, each with its place in the file: their arguments must be those of the tools.
func All(c *config.Config, specs []mcp.Tool, place string) ([]Entry, error) {
	var list []Entry
	var errs []error
	for i := range specs {
		name := specs[i].Name
		e := c.Tools[name].Every
		if e == nil {
			continue
		}
		parsed, err := config.ParseCron(e.Cron)
		if err != nil {
			continue // config.Command.Complete has said so
		}
		arguments := json.RawMessage("{}")
		if len(e.With) > 0 {
			arguments = e.With
		}
		checker := schema.New(specs[i].InputSchema, "")
		if checker.Compile() == nil { // else the schema is reported, too
			if arguments, err = checker.Fit(arguments); err != nil {
				errs = append(errs, c.Locate(config.Join("tools", name), &config.Error{Key: "every",
					Problem: fmt.Sprintf("it cannot start with these arguments: %v", err),
					Allowed: "every: {cron: ..., with: {...}} with the arguments that the tool requires"}))
				continue
			}
		}
		list = append(list, Entry{Tool: name, Cron: e.Cron, Arguments: arguments, Place: place,
			schedule: parsed})
	}
	return list, config.JoinErrors(errs)
}

// same reports whether two entries are equal, so that one can go on as the other.
func (e *Entry) same(other *Entry) bool {
	return e.Tool == other.Tool && e.Cron == other.Cron && e.Place == other.Place &&
		slices.Equal(e.Arguments, other.Arguments)
}

// key is the id of the value that the processes of a state share about the entry.
func (e *Entry) key() string {
	sum := sha256.Sum256([]byte(e.Place + "\x00" + e.Tool))
	return "every-" + hex.EncodeToString(sum[:16])
}
