package command

import (
	"encoding/json"
	"reflect"
	"testing"

	"runnel/tools/process"
)

// A supervisor gets the configuration of its command and what stands around it as JSON: all of it arrives,
// and makes the same command.
func TestConfigReachesTheSupervisor(t *testing.T) {
	conf := fullConfig(t)
	vars := []string{"PATH=/bin", "HOME=/nowhere", "PWD=/elsewhere", "LATIN=\xe9\xff", "LINES=a\nb", "EMPTY="}
	commands, err := All(conf, vars)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range commands {
		prepare := func(c *Command) (*process.Spec, error) {
			args, err := c.arguments(json.RawMessage(`{"run": "a b", "packages": ["x", "y"], "host": "h"}`))
			if err != nil {
				return nil, err
			}
			return c.prepare(args)
		}
		sent := c.recipe()
		encoded, err := json.Marshal(sent)
		if err != nil {
			t.Fatal(err)
		}
		var arrived Recipe
		if err := json.Unmarshal(encoded, &arrived); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(arrived.Config, sent.Config) {
			t.Errorf("%s: sent %+v, arrived %+v", c.name, sent.Config, arrived.Config)
		}
		there, err := arrived.Make("", "")
		if err != nil {
			t.Fatal(err)
		}
		want, wrong := prepare(c)
		got, err := prepare(there)
		if wrong != nil || err != nil {
			want, got = nil, nil
			if wrong == nil || err == nil || wrong.Error() != err.Error() {
				t.Errorf("%s: error %v there, %v here", c.name, err, wrong)
			}
		}
		if !reflect.DeepEqual(want, got) || there.dir != c.dir || !reflect.DeepEqual(there.env(), c.env()) {
			t.Errorf("%s: in %s with %q, runs %+v; want in %s with %q, %+v", c.name, there.dir, there.env(),
				got, c.dir, c.env(), want)
		}
	}
}
