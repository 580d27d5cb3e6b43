package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"

	"runnel/tools/config/strict"
)

// schemaNode is what the tests read of the schema.
type schemaNode struct {
	Description          string                 `json:"description"`
	Type                 any                    `json:"type"`
	Ref                  string                 `json:"$ref"`
	Enum                 []any                  `json:"enum"`
	Default              any                    `json:"default"`
	Properties           map[string]*schemaNode `json:"properties"`
	AdditionalProperties any                    `json:"additionalProperties"`
	Defs                 map[string]*schemaNode `json:"$defs"`
}

func readConfigSchema(t *testing.T) *schemaNode {
	t.Helper()
	var n schemaNode
	if err := json.Unmarshal(Schema(), &n); err != nil {
		t.Fatal(err)
	}
	return &n
}

// Every key of the structs is in the schema with a description and the default it has, and no other key is.
func TestSchemaIsTheStructs(t *testing.T) {
	schema := readConfigSchema(t)
	compareSchema(t, "", schema, reflect.ValueOf(Default()).Elem())
	compareSchema(t, "tools.*", schema.Defs["tool"], reflect.ValueOf(Command{}))
	compareSchema(t, "upstreams.*", schema.Defs["upstream"], reflect.ValueOf(Upstream{}))
	compareSchema(t, "notify", schema.Defs["notify"], reflect.ValueOf(Notify{}))
	compareSchema(t, "model", schema.Defs["model"], reflect.ValueOf(Model{}))
	compareSchema(t, "budget", schema.Defs["budget"], reflect.ValueOf(Budget{}))
	compareSchema(t, "sandbox", schema.Defs["sandbox"], reflect.ValueOf(Sandbox{}))
	compareSchema(t, "retry", schema.Defs["retry"], reflect.ValueOf(Retry{}))
	compareSchema(t, "step", schema.Defs["step"], reflect.ValueOf(Step{}))
}

func compareSchema(t *testing.T, path string, n *schemaNode, v reflect.Value) {
	t.Helper()
	if n.AdditionalProperties != false {
		t.Errorf("%s: the schema allows unknown keys", path)
	}
	keys, fields := strict.Keys(v.Type())
	for _, key := range keys {
		f, value := v.Type().Field(fields[key]), v.Field(fields[key])
		p, at := n.Properties[key], Join(path, key)
		switch {
		case p == nil:
			t.Errorf("%s: not in the schema", at)
			continue
		case p.Description == "":
			t.Errorf("%s: no description in the schema", at)
		}
		if path != "tools.*" && p.Properties == nil && !value.IsZero() &&
			fmt.Sprint(p.Default) != fmt.Sprint(value.Interface()) {
			t.Errorf("%s: the default is %v, the schema says %v", at, value.Interface(), p.Default)
		}
		if f.Type == reflect.TypeFor[*Notify]() || f.Type == reflect.TypeFor[*Sandbox]() ||
			f.Type == reflect.TypeFor[*Model]() ||
			f.Type == reflect.TypeFor[*Retry]() || f.Type == reflect.TypeFor[Retry]() {
			// It is compared by itself.
		} else if f.Type.Kind() == reflect.Pointer && f.Type.Elem().Kind() == reflect.Struct {
			compareSchema(t, at, p, reflect.New(f.Type.Elem()).Elem())
		} else if f.Type.Kind() == reflect.Struct {
			compareSchema(t, at, p, value)
		}
		if want := schemaType(f.Type); want != "" && !strings.Contains(fmt.Sprint(p.Type, p.Ref), want) &&
			p.Enum == nil {
			t.Errorf("%s: %s in the schema, %s in the struct", at, fmt.Sprint(p.Type, p.Ref), want)
		}
	}
	for key := range n.Properties {
		if !slices.Contains(keys, key) {
			t.Errorf("%s: in the schema but not in the struct", Join(path, key))
		}
	}
}

// schemaType is what a Go type is in the schema, "" where that is written out by hand.
func schemaType(t reflect.Type) string {
	switch {
	case t.Kind() == reflect.Pointer:
		return schemaType(t.Elem())
	case t == reflect.TypeFor[Object](), t == reflect.TypeFor[Drain]():
		return ""
	case t == reflect.TypeFor[Notify]():
		return "#/$defs/notify"
	case t == reflect.TypeFor[Sandbox]():
		return "#/$defs/sandbox"
	case t == reflect.TypeFor[Model]():
		return "#/$defs/model"
	case t == reflect.TypeFor[Budgets]():
		return ""
	case t == reflect.TypeFor[USD]():
		return "#/$defs/usd"
	case t == reflect.TypeFor[Retry]():
		return "#/$defs/retry"
	case t == reflect.TypeFor[Size]():
		return "#/$defs/size"
	case t == reflect.TypeFor[Duration]():
		return "#/$defs/duration"
	case t == reflect.TypeFor[Network]():
		return "#/$defs/text"
	}
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return "object"
	case reflect.Slice:
		return "array"
	case reflect.Bool:
		return "boolean"
	case reflect.Int:
		return "integer"
	}
	return "#/$defs/text"
}

func compileConfigSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler() // which knows the meta-schema that the tools' input is held to
	if err := c.AddResource("config.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("config.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// asJSON reads a file as an editor does.
func asJSON(t *testing.T, text []byte) any {
	t.Helper()
	var value any
	if err := yaml.Unmarshal(text, &value); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestSchemaTakesGoodConfigs(t *testing.T) {
	schema := compileConfigSchema(t)
	for _, file := range configFile(t, "good") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(asJSON(t, text)); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	for _, value := range []string{`{"notify": "7d"}`, `{"notify": "never"}`, `{"notify": "1h30m"}`,
		`{"notify": {"after": "7d"}}`, `{"tasks": {"ttl": "7d"}}`} {
		if err := schema.Validate(asJSON(t, []byte(value))); err != nil {
			t.Errorf("%s: %v", value, err)
		}
	}
}

func TestSchemaRefusesWrongConfigs(t *testing.T) {
	schema := compileConfigSchema(t)
	for _, name := range []string{"keys", "tools", "input", "list", "upstreams"} {
		text, err := os.ReadFile(filepath.Join(configFiles, "wrong", name+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		if schema.Validate(asJSON(t, text)) == nil {
			t.Errorf("%s.yaml is valid by the schema", name)
		}
	}
	for _, value := range []string{
		`{"tools": {"a": {}}}`,
		`{"tools": {"a": {"command": ["x"], "shell": "y"}}}`,
		`{"tools": {"a": {"command": ["x"], "timeout": 30}}}`,
		`{"tools": {"a": {"command": ["x"], "timeout": "30"}}}`,
		`{"tools": {"a": {"command": ["x"], "input": {"p": {"type": "strin"}}}}}`,
		`{"upstreams": {"a": {}}}`,
		`{"upstreams": {"a": {"command": ["x"], "prefix": "a b"}}}`,
		`{"upstreams": {"a": {"command": ["x"], "restart": "sometimes"}}}`,
		`{"limits": {"maxLine": "16MB"}}`,
		`{"limits": {"drain": -2}}`,
		`{"notify": "sometimes"}`,
		`{"notify": {"on": ["ended"]}}`,
		`{"notify": {"on": []}}`,
		`{"notify": {"url": "ftp://host"}}`,
	} {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(value))
		if err != nil {
			t.Fatal(err)
		}
		if schema.Validate(v) == nil {
			t.Errorf("%s is valid by the schema", value)
		}
	}
}
