package command

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"runnel/tools/config"
)

const configFiles = "../../testdata/config"

// fullConfig is a config that has everything.
func fullConfig(t *testing.T) *config.Config {
	t.Helper()
	file := filepath.Join(configFiles, "good", "full.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Parse(file, text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestToolsOfAConfig(t *testing.T) {
	c := fullConfig(t)
	commands, err := All(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, command := range commands {
		names = append(names, command.name)
		if want := filepath.Join(configFiles, "good", "sub", "dir"); command.name == "test" &&
			!strings.HasSuffix(command.dir, strings.TrimPrefix(want, "../..")) {
			t.Errorf("dir %q, want %q: relative to the file", command.dir, want)
		}
	}
	if want := []string{"deploy", "test"}; !slices.Equal(names, want) {
		t.Errorf("tools %q, want %q", names, want)
	}
}

// The defaults of a command that the schema shows are those that New fills in.
func TestSchemaShowsCommandDefaults(t *testing.T) {
	var schema struct {
		Defs struct {
			Tool struct {
				Properties map[string]*struct {
					Enum    []any
					Default any
				}
			}
		} `json:"$defs"`
	}
	if err := json.Unmarshal(config.Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	c, err := New("x", config.Command{Command: []string{"x"}}, config.Base{})
	if err != nil {
		t.Fatal(err)
	}
	filled := reflect.ValueOf(c.config)
	for key, p := range schema.Defs.Tool.Properties {
		if p.Default == nil || key == "dir" {
			continue
		}
		f, _ := filled.Type().FieldByNameFunc(func(name string) bool {
			f, _ := filled.Type().FieldByName(name)
			return f.Tag.Get("yaml") == key
		})
		v := reflect.Indirect(filled.FieldByIndex(f.Index))
		if got, want := fmt.Sprint(p.Default), fmt.Sprint(v.Interface()); got != want &&
			(got != "0" || !v.IsZero()) {
			t.Errorf("%s: the schema says %s, the command has %s", key, got, want)
		}
		if p.Enum != nil {
			for _, word := range p.Enum {
				conf := config.Command{Command: []string{"x"}}
				reflect.ValueOf(&conf).Elem().FieldByIndex(f.Index).SetString(fmt.Sprint(word))
				if _, err := New("x", conf, config.Base{}); err != nil {
					t.Errorf("%s: the schema allows %v: %v", key, word, err)
				}
			}
		}
	}
}
