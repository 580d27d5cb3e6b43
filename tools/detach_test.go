package tools

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"testing"
)

// A supervisor gets the configuration of its command as JSON: all of it arrives, and makes the same command.
func TestConfigReachesTheSupervisor(t *testing.T) {
	config, err := LoadConfig(filepath.Join("..", "testdata", "config", "good", "full.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	vars := []string{"PATH=/bin", "HOME=/nowhere", "PWD=/elsewhere"}
	commands, err := config.Commands(vars)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range commands {
		encoded, err := json.Marshal(c.config)
		if err != nil {
			t.Fatal(err)
		}
		var decoded CommandConfig
		if err := json.Unmarshal(encoded, &decoded); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(decoded, c.config) {
			t.Errorf("%s: sent %+v, arrived %+v", c.name, c.config, decoded)
		}
		decoded.Dir = ""
		there, err := NewCommand(c.name, decoded, Environment{Dir: c.dir, Vars: c.env})
		if err != nil {
			t.Fatal(err)
		}
		arguments := &Call{Arguments: json.RawMessage(`{"run": "a b", "packages": ["x", "y"], "host": "h"}`)}
		want, wrong := c.prepare(arguments)
		got, err := there.prepare(arguments)
		if wrong != nil || err != nil {
			want, got = nil, nil
			if wrong == nil || err == nil || wrong.Error() != err.Error() {
				t.Errorf("%s: error %v there, %v here", c.name, err, wrong)
			}
		}
		if !reflect.DeepEqual(want, got) || there.dir != c.dir || !reflect.DeepEqual(there.env, c.env) {
			t.Errorf("%s: in %s with %q, runs %+v; want in %s with %q, %+v", c.name, there.dir, there.env, got, c.dir, c.env, want)
		}
	}
}
