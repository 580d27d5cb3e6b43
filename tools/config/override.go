package config

import (
	"bytes"
	"encoding/json"
	"strings"

	"runnel/tools/config/strict"
)

// Override sets the value of any key, such as tools.test.timeout, which may be in a file or not. The text is
// the value in YAML.
func (c *Config) Override(key, text string) error {
	over := *c // for its own places: errors have none in a file
	over.source = strict.Nowhere()
	var yaml bytes.Buffer
	indent := ""
	for name := range strings.SplitSeq(key, ".") {
		if name == "" {
			return Wrong("KEY=VALUE, such as tasks.ttl=2h", "%q is not the key of a config", key)
		}
		yaml.WriteString(indent)
		yaml.Write(strict.AppendString(nil, name))
		yaml.WriteByte(':')
		indent = "\n" + strings.TrimPrefix(indent, "\n") + " "
	}
	if strings.ContainsAny(text, "\n\r") && !json.Valid([]byte(text)) { // it would not be on the key's line
		text = string(strict.AppendString(nil, text))
	}
	yaml.WriteString(" " + text + "\n")
	if err := over.source.Decode(yaml.Bytes(), &over,
		strict.Options{Over: true, Instead: instead, List: list}); err != nil {
		return err
	}
	values := over.source.Paths()
	over.source = c.source
	*c = over
	if c.set == nil {
		c.set = map[string]string{}
	}
	for path := range values {
		if path == key || strings.HasPrefix(path, key+".") {
			c.set[path] = "--set " + key
		}
	}
	return nil
}
