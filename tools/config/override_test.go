package config

import (
	"reflect"
	"testing"
	"time"
)

// Override sets any key, and leaves the rest as the file and the defaults have it.
func TestOverride(t *testing.T) {
	const file = "tools:\n  a: {command: [echo, a], timeout: 1m}\n  b: {command: [echo, b]}\nnotify: {after: 5s}\ntasks: {ttl: 1h}\n"
	c, err := Parse("x.yaml", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range map[string]string{
		"tasks.ttl": "2h", "tools.a.timeout": "3s", "tools.c": "{command: [echo, c]}",
		"tools.b.command": "[printf, x]", "server.instructions": "two\nlines",
		"fleet.classes": "[x, y]", "notify.after": "7s",
	} {
		for range 2 {
			if err := c.Override(key, value); err != nil {
				t.Errorf("%s=%s: %v", key, value, err)
			}
		}
	}
	a, want := c.Tools["a"], []string{"echo", "a"}
	if !reflect.DeepEqual(a.Command, want) || time.Duration(a.Timeout) != 3*time.Second ||
		len(c.Tools) != 3 || c.Tools["b"].Command[0] != "printf" ||
		time.Duration(c.Tasks.TTL) != 2*time.Hour || c.Server.Instructions != "two\nlines" ||
		len(c.Fleet.Classes) != 2 || c.Server.Name != Default().Server.Name {
		t.Errorf("%+v", c)
	}
	again, err := Parse("x.yaml", []byte(file))
	if err != nil || time.Duration(again.Tools["a"].Timeout) != time.Minute {
		t.Errorf("the file reads otherwise afterwards: %+v, %v", again, err)
	}
	if err := c.Override("tasks.ttl", "100h"); err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err == nil ||
		err.Error() != "--set tasks.ttl: 100h is longer than tasks.maxTtl (allowed: 24h at most)" {
		t.Errorf("%v", err)
	}
	for set, want := range map[[2]string]string{
		{"tasks.tll", "1h"}:   `tasks: unknown key "tll" (did you mean ttl?)`,
		{"tasks.ttl", "soon"}: `tasks.ttl: "soon" is not a duration (allowed: a number and its unit, such as 300ms, 5s, 30m, 1h30m)`,
		{"tasks..ttl", "1h"}:  `"tasks..ttl" is not the key of a config (allowed: KEY=VALUE, such as tasks.ttl=2h)`,
		{"tools.x", "[a"}:     "",
	} {
		if err := Default().Override(set[0], set[1]); err == nil || want != "" && err.Error() != want {
			t.Errorf("%s=%s: %v, want %s", set[0], set[1], err, want)
		}
	}
}
