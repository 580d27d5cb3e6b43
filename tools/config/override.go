package config

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
)

// Override sets the value of any key, such as tools.test.timeout, which may be in a file or not. The text is
// the value in YAML.
func (c *Config) Override(key, text string) error {
	over := *c // for its own places: errors have none in a file
	over.file = ""
	over.lines = nil
	over.places = map[string]place{}
	d := &decoder{config: &over, over: true}
	var yaml bytes.Buffer
	indent := ""
	for name := range strings.SplitSeq(key, ".") {
		if name == "" {
			return Wrong("KEY=VALUE, such as tasks.ttl=2h", "%q is not the key of a config", key)
		}
		yaml.WriteString(indent)
		yaml.Write(appendString(nil, name))
		yaml.WriteByte(':')
		indent = "\n" + strings.TrimPrefix(indent, "\n") + " "
	}
	if strings.ContainsAny(text, "\n\r") && !json.Valid([]byte(text)) { // it would not be on the key's line
		text = string(appendString(nil, text))
	}
	yaml.WriteString(" " + text + "\n")
	if err := d.decode(yaml.Bytes()); err != nil {
		return err
	}
	values := over.places
	over.file = c.file
	over.lines = c.lines
	over.places = c.places
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

// begin makes v a value of its own to decode into: that of an Override begins as the one that it changes.
func (d *decoder) begin(v, was reflect.Value) {
	if d.over && was.IsValid() {
		v.Set(was)
	}
}
