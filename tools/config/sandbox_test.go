package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// A sandbox is read wherever it may stand, and its mistakes are named with their places.
func TestSandboxConfig(t *testing.T) {
	schema := compileConfigSchema(t)
	for text, want := range map[string]string{
		"true":                                 "[none]",
		"{}":                                   "[none]",
		"{network: none}":                      "[none]",
		"{network: all}":                       "[all]",
		"{network: ask}":                       "[ask]",
		"{network: []}":                        "[none]",
		"{network: example.com:443}":           "[example.com:443]",
		`{network: [ask, "*.a.com:443"]}`:      "[ask *.a.com:443]",
		`{network: ["[::1]:80", "1.2.3.4:5"]}`: "[[::1]:80 1.2.3.4:5]",
	} {
		for place, get := range map[string]func(*Config) *Sandbox{
			"sandbox: %s": func(c *Config) *Sandbox { return c.Sandbox },
			"tools: {t: {command: [x], sandbox: %s}}":     func(c *Config) *Sandbox { return c.Tools["t"].Sandbox },
			"upstreams: {u: {command: [x], sandbox: %s}}": func(c *Config) *Sandbox { return c.Upstreams["u"].Sandbox },
		} {
			text := fmt.Sprintf(place, text)
			c, err := Parse("runnel.yaml", []byte(text))
			if err == nil {
				err = c.Check()
			}
			if err != nil {
				t.Errorf("%s: %v", text, err)
				continue
			}
			filled, err := (&Base{}).SandboxOf(get(c))
			if err != nil || fmt.Sprint([]string(filled.Network)) != want ||
				!slices.Equal(filled.Write, []string{"."}) {
				t.Errorf("%s: %+v, %v", text, filled, err)
			}
			if err := schema.Validate(asJSON(t, []byte(text))); err != nil {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
	for text, want := range map[string]string{
		"{network: some}":                  `runnel.yaml:1:20: sandbox.network: "some": it is not HOST:PORT`,
		"{network: [a:1, b]}":              `sandbox.network[1]: "b": it is not HOST:PORT`,
		"{network: [none, a:1]}":           "sandbox.network[0]: none stands among others",
		"{network: [a:x, a:1]}":            `"x" is not the number of a port`,
		`{network: ["https://a.com:443"]}`: `sandbox.network`,
		`{network: {a: 1}}`:                `sandbox.network`,
		"{unixSockets: some}":              `sandbox.unixSockets: "some" is unknown`,
		"{write: ['']}":                    "sandbox.write[0]: is empty",
		"some":                             `sandbox: "some" is unknown`,
	} {
		text := "sandbox: " + text
		c, err := Parse("runnel.yaml", []byte(text))
		if err == nil {
			err = c.Check()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// The sandbox of a tool or an upstream counts, then that of the whole config.
func TestSandboxOf(t *testing.T) {
	all, own := &Sandbox{Network: Reach{"all"}}, &Sandbox{Off: true}
	base := &Base{Sandbox: all}
	for range 2 {
		if s, err := base.SandboxOf(nil); err != nil || !s.Sandboxed() || s.Network[0] != "all" {
			t.Errorf("%+v, %v", s, err)
		}
		if s, err := base.SandboxOf(own); err != nil || s.Sandboxed() {
			t.Errorf("%+v, %v", s, err)
		}
	}
	if all.Write != nil || own.Network != nil {
		t.Error("the config was changed")
	}
	if s, err := (&Base{}).SandboxOf(nil); s.Sandboxed() || err != nil {
		t.Errorf("%+v, %v", s, err)
	}
	c := Default()
	if err := c.Override("sandbox.network", "[a.com:443]"); err != nil || c.Sandbox == nil ||
		c.Sandbox.Network[0] != "a.com:443" {
		t.Errorf("--set: %v, %+v", err, c.Sandbox)
	}
	if err := c.Override("sandbox", "true"); err != nil || c.Sandbox == nil {
		t.Errorf("--set: %v, %+v", err, c.Sandbox)
	}
}
