package jsonschema_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	oracle "github.com/santhosh-tekuri/jsonschema/v6"

	"runnel/tools/jsonschema"
)

func compile(t *testing.T, source string) *jsonschema.Schema {
	t.Helper()
	s, err := jsonschema.Compile([]byte(source))
	if err != nil {
		t.Fatalf("%s: %v", source, err)
	}
	return s
}

func TestValidateNamesAllThatIsWrong(t *testing.T) {
	for _, c := range []struct{ schema, value, want string }{
		{`{"type":"object","required":["a","b"]}`, `{}`, `missing properties 'a', 'b'`},
		{`{"properties":{"a":{"type":["string","null"]},"b":{"minimum":1}},"additionalProperties":false}`, `{"a":1,"b":0.5,"c":2,"d":3}`,
			`a: got number, want string or null; b: minimum: got 0.5, want 1; additional properties 'c', 'd' not allowed`},
		{`{"items":{"enum":["x",1,null]}}`, `["x",2,1.0]`, `1: value must be one of 'x', 1, null`},
		{`{"const":{"a":[1]}}`, `{"a":[2]}`, `value must be {"a":[1]}`},
		{`{"properties":{"n":{"pattern":"^a"}},"propertyNames":{"maxLength":1}}`, `{"n":"it's","long":1}`,
			`n: 'it\'s' does not match pattern '^a'; invalid propertyName 'long': maxLength: got 4, want 1`},
		{`{"anyOf":[{"type":"string"},{"properties":{"x":{"type":"integer"}},"type":"object"}]}`, `{"x":"1"}`, `got object, want string; x: got string, want integer`},
		{`{"oneOf":[{"minimum":0},{"minimum":1}]}`, `2`, `'oneOf' failed, subschemas 0, 1 matched`},
		{`{"not":{"type":"null"}}`, `null`, `'not' failed`},
		{`{"contains":{"type":"string"}}`, `[1]`, `no items match contains schema`},
		{`{"uniqueItems":true}`, `[1,{"a":1,"b":2},{"b":2.0,"a":1}]`, `items at 1 and 2 are equal`},
		{`{"dependentRequired":{"a":["b"]}}`, `{"a":1}`, `properties 'b' required, if 'a' exists`},
		{`{"unevaluatedProperties":false,"allOf":[{"properties":{"a":true}}]}`, `{"a":1,"b":2}`, `b: false schema`},
		{`{"multipleOf":0.1}`, `0.35`, `multipleOf: got 0.35, want 0.1`},
		{`{"multipleOf":7}`, `1e999999999`, `multipleOf: got 1e999999999, want 7`},
		{`{"maximum":1e999999998,"minimum":-1}`, `1e999999999`, `maximum: got 1e999999999, want 1e999999998`},
		{`{"$ref":"#"}`, `1`, `the schema refers to itself without end at #`},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"string"}],"additionalItems":false}`, `[1,2,3]`,
			`last 2 additionalItem(s) not allowed; 0: got number, want string`},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"a":{"type":"string"}},"properties":{"x":{"$ref":"#/definitions/a","maxLength":0}}}`, `{"x":"y"}`, ``},
	} {
		wrong, err := compile(t, c.schema).Validate([]byte(c.value))
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, e := range wrong {
			lines = append(lines, e.Error())
		}
		if got := strings.Join(lines, "; "); got != c.want {
			t.Errorf("%s of %s:\n got %s\nwant %s", c.value, c.schema, got, c.want)
		}
	}
}

func TestCompileNamesWhatIsWrong(t *testing.T) {
	for schema, want := range map[string]string{
		`1`:                                     `got number, want boolean or object`,
		`{"type":"strng"}`:                      `type: value must be one of 'array', 'boolean', 'integer', 'null', 'number', 'object', 'string'`,
		`{"type":{}}`:                           `type: got object, want string or array`,
		`{"properties":{"a":1}}`:                `properties/a: got number, want boolean or object`,
		`{"properties":[]}`:                     `properties: got array, want object`,
		`{"properties":{"a":{"minLength":-1}}}`: `properties/a/minLength: minimum: got -1, want 0`,
		`{"maxItems":1.5}`:                      `maxItems: got number, want integer`,
		`{"minimum":"1"}`:                       `minimum: got string, want number`,
		`{"multipleOf":0}`:                      `multipleOf: exclusiveMinimum: got 0, want 0`,
		`{"required":"a"}`:                      `required: got string, want array`,
		`{"required":["a","a"]}`:                `required: items at 0 and 1 are equal`,
		`{"anyOf":[]}`:                          `anyOf: minItems: got 0, want 1`,
		`{"uniqueItems":1}`:                     `uniqueItems: got number, want boolean`,
		`{"items":[{}]}`:                        `items: got array, want boolean or object`,
		`{"pattern":"("}`:                       "pattern: '(' is not valid regex: error parsing regexp: missing closing ): `(`",
		`{"patternProperties":{"[":true}}`:      "patternProperties/[: '[' is not valid regex: error parsing regexp: missing closing ]: `[`",
		`{"$ref":"#/$defs/x"}`:                  `$ref: json-pointer in "#/$defs/x" not found`,
		`{"$ref":"#x"}`:                         `$ref: anchor in "#x" not found`,
		`{"$ref":"other.json"}`:                 `$ref: other.json cannot be loaded: a schema may not refer to other documents`,
		`{"$schema":"http://json-schema.org/draft-03/schema#"}`: `$schema: "http://json-schema.org/draft-03/schema#" is not known here; use 2020-12, 2019-09, draft-07 or draft-06`,
		`{"$defs":{"a":{"type":1}}}`:                            `$defs/a/type: got number, want string or array`,
	} {
		if _, err := jsonschema.Compile([]byte(schema)); err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", schema, err, want)
		}
	}
}

// A schema whose recursion doubles with each level of a value is cut short.
func TestExplodingValuesAreRefused(t *testing.T) {
	s := compile(t, `{"$defs":{"n":{"anyOf":[{"properties":{"x":{"$ref":"#/$defs/n"}},"required":["y"]},{"properties":{"x":{"$ref":"#/$defs/n"}},"required":["y"]}]}},"$ref":"#/$defs/n"}`)
	wrong, err := s.Validate([]byte(strings.Repeat(`{"x":`, 64) + "1" + strings.Repeat("}", 64)))
	if err != nil || len(wrong) != 1 || !strings.Contains(wrong[0].Problem, "explodes") {
		t.Errorf("%v, %v", wrong, err)
	}
}

// elsewhere are keywords that are treated otherwise on purpose, and what the oracle cannot take.
var elsewhere = regexp.MustCompile(`\$schema|"\$?id"|format|content|json-schema.org|\$vocabulary|[eE][+-]?[0-9]{4}|\\u|[0-9]{20}`)

// FuzzValidate holds the validator to another one.
func FuzzValidate(f *testing.F) {
	for _, s := range []string{
		`{"type":"object","properties":{"a":{"type":"integer","minimum":1}},"required":["a"],"additionalProperties":false}`,
		`{"items":{"anyOf":[{"type":"string","maxLength":2},{"const":1}]},"uniqueItems":true,"contains":{"type":"string"},"maxContains":1}`,
		`{"$defs":{"n":{"properties":{"c":{"$ref":"#/$defs/n"}},"unevaluatedProperties":false}},"$ref":"#/$defs/n"}`,
		`{"if":{"required":["a"]},"then":{"dependentSchemas":{"a":{"minProperties":2}}},"else":false,"patternProperties":{"^b":{"multipleOf":0.5}}}`,
		`{"prefixItems":[true,{"enum":[null,[1],{"a":1}]}],"items":{"not":{"type":"boolean"}},"unevaluatedItems":false,"oneOf":[{"minItems":1},{"maxItems":3}]}`,
	} {
		for _, v := range []string{`{}`, `{"a":1}`, `{"a":1.0,"b":2.5}`, `["x",1,null,[1],{"a":1.0}]`, `[1,1.0]`, `{"c":{"c":{"d":1}}}`, `"x"`, `null`, `-0.0`} {
			f.Add(s, v)
		}
	}
	f.Fuzz(func(t *testing.T, schema, value string) {
		if elsewhere.MatchString(schema) || elsewhere.MatchString(value) {
			return
		}
		s, err := jsonschema.Compile([]byte(schema))
		if err != nil {
			return
		}
		wrong, err := s.Validate([]byte(value))
		if err != nil {
			return
		}
		want, err := oracleOf(schema, value)
		if err != nil {
			return // it refuses more schemas
		}
		if (len(wrong) == 0) != want {
			t.Errorf("%s of %s: valid: %v, want %v: %v", value, schema, len(wrong) == 0, want, wrong)
		}
	})
}

func oracleOf(schema, value string) (valid bool, err error) {
	doc, err := oracle.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		return false, err
	}
	c := oracle.NewCompiler()
	if err := c.AddResource("input.json", doc); err != nil {
		return false, err
	}
	s, err := c.Compile("input.json")
	if err != nil {
		return false, err
	}
	v, err := oracle.UnmarshalJSON(strings.NewReader(value))
	if err != nil {
		return false, err
	}
	return s.Validate(v) == nil, nil
}

func BenchmarkValidate(b *testing.B) {
	s, err := jsonschema.Compile([]byte(`{"type":"object","properties":{"files":{"type":"array","items":{"type":"string"}},"count":{"type":"integer","minimum":1}},"required":["files"],"additionalProperties":false}`))
	if err != nil {
		b.Fatal(err)
	}
	value, _ := json.Marshal(map[string]any{"files": strings.Fields(strings.Repeat("file.go ", 20)), "count": 3})
	for b.Loop() {
		if wrong, err := s.Validate(value); wrong != nil || err != nil {
			b.Fatal(wrong, err)
		}
	}
	b.SetBytes(int64(len(value)))
}
