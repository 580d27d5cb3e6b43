package schema

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestSchemaNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ schema, value, want string }{
		{`{"required":["b","a"]}`, `{}`, `argument "b" is missing; "a" is missing`},
		{`{"properties":{"a":{"type":["string","null"]}}}`, `{"a":1}`,
			`argument "a" must be a string or null, but is 1`},
		{`{"properties":{"a":{"type":"integer"}}}`, `{"a":1.5}`,
			`argument "a" must be an integer, but is 1.5`},
		{`{"properties":{"a":{"type":"string"}}}`, `{"a":{"b":[1]}}`,
			`argument "a" must be a string, but is an object`},
		{`{"properties":{"a":{"type":"object"}}}`, `{"a":null}`,
			`argument "a" must be an object, but is null`},
		{`{"properties":{"a":{"minimum":1}}}`, `{"a":0.5}`, `argument "a" must be at least 1, but is 0.5`},
		{`{"properties":{"a":{"multipleOf":2}}}`, `{"a":3}`,
			`argument "a" must be a multiple of 2, but is 3`},
		{`{"properties":{"a":true},"additionalProperties":false}`, `{"d":1,"c":2}`,
			`additional properties "c", "d" not allowed; allowed are a`},
		{`{"properties":{"a":{"additionalProperties":{"type":"string"},"properties":{"b":true}}}}`,
			`{"a":{"b":1,"c":"c","d":2}}`, `argument "a/d" must be a string, but is 2`},
		{`{"properties":{"a":{"items":{"enum":["x",1,null]}}}}`, `{"a":["x",2,1.0]}`,
			`argument "a/*" must be one of ["x",1,null], but is 2`},
		{`{"properties":{"a":{"prefixItems":[true,{"type":"null"}],"items":{"const":{"b":[1]}}}}}`,
			`{"a":[1,null,{"b":[1]},{"b":[2]}]}`, `argument "a/*" must be {"b":[1]}, but is an object`},
		{`{"properties":{"n":{"pattern":"^a\"?"}}}`, `{"n":"it's"}`,
			`argument "n" must match the regular expression "^a\"?", but is "it's"`},
		{`{"properties":{"n":{"maxLength":2}}}`, `{"n":"äöü"}`,
			`argument "n" must have at most 2 characters, but is "äöü"`},
		{`{"properties":{"n":{"maxItems":0}}}`, `{"n":[1]}`,
			`argument "n" must have at most 0 items, but has 1`},
		{`{"propertyNames":{"maxLength":1}}`, `{"n":1,"long":1}`,
			`argument "its names" must have at most 1 characters, but is "long"`},
		{`{"patternProperties":{"^x":{"type":"string"}}}`, `{"a":1,"x":"","xy":1}`,
			`argument "xy" must be a string, but is 1`},
		{`{"properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}]}}}`, `{"a":1}`,
			`argument "a" must fit one of [{"type":"string"},{"type":"null"}], but is 1`},
		{`{"properties":{"a":{"oneOf":[{"minimum":0},{"minimum":1}]}}}`, `{"a":2}`,
			`argument "a" must fit exactly one of [{"minimum":0},{"minimum":1}], but is 2`},
		{`{"properties":{"a":{"not":{"type":"null"}},"b":false}}`, `{"a":null}`,
			`argument "a" must not fit {"type":"null"}, but is null`},
		{`{"properties":{"b":false}}`, `{"b":1}`, `argument "b" is not allowed`},
		{`{"properties":{"a":{"contains":{"type":"string"}}}}`, `{"a":[1]}`,
			`argument "a" must have an item that fits {"type":"string"}, but is an array`},
		{`{"properties":{"a":{"uniqueItems":true}}}`, `{"a":[1,{"a":1,"b":2},{"b":2.0,"a":1}]}`,
			`argument "a" must not have equal items`},
		{`{"dependentRequired":{"a":["b"]}}`, `{"a":1}`, `argument "b" is missing`},
		{`{"unevaluatedProperties":false,"allOf":[{"properties":{"a":true}}]}`, `{"a":1,"b":2}`,
			`argument "b" is not allowed`},
		{`{"$defs":{"n":{"properties":{"c":{"$ref":"#/$defs/n"},"v":{"type":"string"}}}},"$ref":"#/$defs/n"}`,
			`{"c":{"c":{"v":1}}}`, `argument "c/c/v" must be a string, but is 1`},
		{`{"$id":"https://example.com/tool.json","properties":{"a":{"$id":"a.json","items":{"$ref":"#/$defs/b"},"$defs":{"b":{"type":"null"}}}}}`, `{"a":[null,1]}`, `argument "a/*" must be null, but is 1`},
		{`{"properties":{"a/b~":{"type":"null"}}}`, `{"a/b~":1}`, `argument "a/b~" must be null, but is 1`},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"items":[{"type":"string"}],"additionalItems":false}}}`, `{"a":["",2]}`, `argument "a/*" is not allowed`},
		{`{"$schema":"http://json-schema.org/draft-07/schema","definitions":{"a":{"type":"string"}},"properties":{"x":{"$ref":"#/definitions/a","maxLength":0}}}`, `{"x":"y"}`, ``},
		{`{"properties":{"a":{"enum":["` + strings.Repeat("long", 200) + `"]}}}`, `{"a":1}`,
			`argument "a" must be one of ["` + strings.Repeat("long", 75)[:295] + `…, but is 1`},
		{`true`, `{"a":1e999}`, `number 1e999 is out of range`},
	} {
		err := New([]byte(c.schema), "").Check([]byte(c.value))
		got := ""
		if err != nil {
			got = strings.TrimPrefix(strings.TrimPrefix(err.Error(), "invalid arguments: "),
				"reading the arguments: ")
		}
		if got != c.want {
			t.Errorf("%s of %s:\n got %s\nwant %s", c.value, c.schema, got, c.want)
		}
	}
}

// Of several mistakes, the same one is named each time.
func TestEqualMistakesHaveEqualErrors(t *testing.T) {
	t.Parallel()
	schema := `{"properties":{"o":{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"null"},"c":{"enum":[1]}},"required":["c"]},"s":{"type":"string"},"z":false},"required":["s"]}`
	for value, want := range map[string]string{
		`{"o":{"b":1,"a":"x","c":2},"s":2,"z":1}`: `invalid arguments: argument "o/a" must be an integer, but is "x"`,
		`{"o":{"b":1,"a":1},"s":2}`:               `invalid arguments: argument "o/b" must be null, but is 1`,
		`{"o":{"a":1},"s":2}`:                     `invalid arguments: argument "o/c" is missing`,
		`{"s":2,"z":1}`:                           `invalid arguments: argument "s" must be a string, but is 2`,
		`{"o":{"c":1}}`:                           `invalid arguments: argument "s" is missing: a string`,
	} {
		for range 50 {
			if err := New([]byte(schema), "").Check([]byte(value)); err == nil || err.Error() != want {
				t.Fatalf("%s:\n got %v\nwant %s", value, err, want)
			}
		}
	}
}

func TestSchemaMistakesHaveAPlace(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]string{
		`1`:                                      `cannot be of type number`,
		`{"type":"strng"}`:                       `type: value must be one of array, boolean, integer, null, number, object, string`,
		`{"type":["string","nul"]}`:              `type: value must be one of array, boolean, integer, null, number, object, string`,
		`{"properties":{"a":1}}`:                 `properties/a: cannot be of type number`,
		`{"properties":{"a":null}}`:              `properties/a: null is neither a boolean nor an object`,
		`{"properties":[]}`:                      `properties: cannot be of type array`,
		`{"properties":{"a":{"minLength":"1"}}}`: `properties/a/minLength: cannot be unmarshaled into an int`,
		`{"not":{"anyOf":[{},{"minimum":"1"}]}}`: `not/anyOf/1/minimum: cannot be of type string`,
		`{"required":"a"}`:                       `required: cannot be of type string`,
		`{"required":["a",1]}`:                   `required/1: cannot be of type number`,
		`{"minimum":"1","minimum":1}`:            `cannot be of type string`,
		`{"minimum":1} x`:                        `invalid character 'x' after top-level value`,
		`{"not":{"minimum":1e999}}`:              `not/minimum: cannot be of type number`,
		`{"exclusiveMinimum":true}`:              `exclusiveMinimum: cannot be of type bool`,
		`{"items":[{}]}`:                         `items: a list of schemas is called prefixItems in this draft`,
		`{"pattern":"("}`:                        "pattern: \"(\" is not a regular expression: error parsing regexp: missing closing ): `(`",
		`{"patternProperties":{"[":true}}`:       "patternProperties/[: \"[\" is not a regular expression: error parsing regexp: missing closing ]: `[`",
		`{"$ref":"#/$defs/x"}`:                   `$ref: "#/$defs/x" refers to nothing`,
		`{"$ref":"#x"}`:                          `$ref: "#x" refers to nothing`,
		`{"$ref":"other.json"}`:                  `$ref: other.json cannot be loaded: a schema may not refer to other documents`,
		`{"$ref":"file:///etc/passwd"}`:          `$ref: file:///etc/passwd cannot be loaded: a schema may not refer to other documents`,
		`{"$ref":"#"}`:                           `explodes or refers to itself without end: more than 50000 parts would be applied to one value`,
		`{"properties":{"x":{"allOf":[{"$ref":"#/properties/x"}]}}}`: `properties/x: explodes or refers to itself without end: more than 50000 parts would be applied to one value`,
		`{"$schema":"https://json-schema.org/draft/2019-09/schema"}`: `$schema: "https://json-schema.org/draft/2019-09/schema" is not known here; use ` + draft2020 + ` or ` + draft07,
		`{"$defs":{"a":{"type":1}}}`:                                 `$defs/a/type: invalid value for "type": "1"`,
	} {
		_, err := compile([]byte(schema))
		if err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", schema, err, want)
		}
		if at := (*Error)(nil); !errors.As(err, &at) {
			t.Errorf("%s: %T", schema, err)
		}
	}
}

// doubling is a schema whose n definitions each apply the next one twice.
func doubling(n int, by string) []byte {
	var defs strings.Builder
	for i := range n {
		next := fmt.Sprintf(`{"$ref":"#/$defs/a%d"}`, i+1)
		fmt.Fprintf(&defs, `"a%d":%s,`, i, strings.ReplaceAll(by, "NEXT", next))
	}
	return fmt.Appendf(nil, `{"type":"object","properties":{"x":{"$ref":"#/$defs/a0"}},"$defs":{%s"a%d":{"type":"string"}}}`, &defs, n)
}

func TestExplodingSchemasAreRefused(t *testing.T) {
	t.Parallel()
	for _, by := range []string{
		`{"anyOf":[NEXT,NEXT]}`, `{"allOf":[NEXT,NEXT]}`, `{"oneOf":[NEXT,NEXT]}`,
		`{"if":NEXT,"then":NEXT,"else":NEXT}`,
		`{"anyOf":[{"properties":{"x":NEXT}},{"properties":{"x":NEXT}}]}`,
		`{"anyOf":[{"items":NEXT},{"items":NEXT}]}`,
	} {
		if _, err := compile(doubling(40, by)); err == nil || !strings.Contains(err.Error(), "explodes") {
			t.Errorf("%s: %v", by, err)
		}
		if _, err := compile(doubling(5, by)); err != nil {
			t.Errorf("%s, five of it: %v", by, err)
		}
	}
}

// To read a deep schema of 64 KiB, as an upstream's question may have, took minutes, and to find a mistake in
// it hours.
func TestDeepSchemasAreRefused(t *testing.T) {
	t.Parallel()
	nested := func(levels int, inner string) []byte {
		return []byte(strings.Repeat(`{"not":`, levels) + inner + strings.Repeat("}", levels))
	}
	if _, err := compile(nested(maxDepth, `true`)); err != nil {
		t.Error(err)
	}
	for _, deep := range [][]byte{nested(maxDepth+1, `true`), nested(8000, `{"minimum":"1"}`)} {
		if _, err := compile(deep); err == nil || !strings.Contains(err.Error(), "nested too deep") {
			t.Error(err)
		}
	}
}

// A check is bounded in time and memory, whoever wrote the schema: the patterns of an upstream's question
// took 26 s and 2.9 GB.
func TestPatternsAreBounded(t *testing.T) {
	t.Parallel()
	many := strings.TrimSuffix(strings.Repeat(`{"pattern":"^(.{1000}){0,1}x"},`, 2000), ",")
	wide := strings.Repeat(".{1,1000}|", 20)
	for name, c := range map[string]struct{ schema, value, want string }{
		"large together": {`{"properties":{"x":{"anyOf":[` + many + `]}}}`, `{"x":""}`, "explodes"},
		"long": {`{"properties":{"x":{"pattern":"` + strings.Repeat(`\\pL`, 20_000) + `"}}}`,
			`{"x":""}`, "explodes"},
		"large for a text": {`{"properties":{"x":{"pattern":"(` + wide + `z)y"}}}`,
			`{"x":"` + strings.Repeat("x", 1<<20) + `"}`, "explodes"},
		"large for names": {`{"patternProperties":{"(` + wide + `z)y":true}}`,
			`{"` + strings.Repeat("x", 1<<20) + `":1}`, "explodes"},
		"enum in every one": {`{"items":{"enum":[` + strings.TrimSuffix(strings.Repeat("7,", 100_000), ",") +
			`]}}`, `[` + strings.TrimSuffix(strings.Repeat("1,", 100_000), ",") + `]`, "explodes"},
		"unique": {`{"allOf":[` + strings.TrimSuffix(strings.Repeat(`{"uniqueItems":true},`, 2000), ",") +
			`]}`, `[` + strings.TrimSuffix(strings.Repeat("[],", 50_000), ",") + `]`, "explodes"},
		"fine": {`{"properties":{"x":{"pattern":"^[A-Za-z0-9_-]{1,128}$"}}}`,
			`{"x":"` + strings.Repeat("x", 128) + `"}`, ""},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var err error
		took := cpuTime(t, func() { err = New([]byte(c.schema), "").Check([]byte(c.value)) })
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %.200v, want %s", name, err, c.want)
		}
		runtime.ReadMemStats(&after)
		if mib := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 5*time.Second || mib > 200 {
			t.Errorf("%s: %v, %d MiB", name, took, mib)
		} else {
			t.Logf("%s: %v, %d MiB", name, took, mib)
		}
	}
}

// The dearest arguments that are still checked with a schema that explodes are checked in time.
func TestDearestArguments(t *testing.T) {
	for _, s := range []string{
		`{"anyOf":[{"properties":{"l":{"$ref":"#"}},"required":["y"]},{"properties":{"l":{"$ref":"#"}},"required":["z"]}]}`,
		`{"allOf":[{"properties":{"l":{"$ref":"#"}}},{"properties":{"l":{"$ref":"#"}}}]}`,
		`{"oneOf":[{"properties":{"l":{"$ref":"#"}}},{"required":["q"],"properties":{"l":{"$ref":"#"}}}]}`,
		`{"not":{"required":["q"],"allOf":[{"properties":{"l":{"$ref":"#"}}},{"properties":{"l":{"$ref":"#"}}}]}}`,
	} {
		schema := New([]byte(s), "")
		for depth := 1; ; depth++ {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := schema.Check([]byte(strings.Repeat(`{"l":`, depth) + "{}" + strings.Repeat("}", depth)))
			runtime.ReadMemStats(&after)
			// The work of the checks shows in what they allocate, also on a busy machine: 0.2 s are some 150
			// MiB.
			if mib := (after.TotalAlloc - before.TotalAlloc) >> 20; mib > 200 {
				t.Errorf("%s of %d: %d MiB", s, depth, mib)
			}
			if err != nil && strings.Contains(err.Error(), "explodes on") {
				break
			}
		}
	}
}

// A schema may refer to itself, also on two ways, as long as that does not explode on the value.
func TestRecursiveSchemas(t *testing.T) {
	t.Parallel()
	const (
		tree   = `{"type":"object","properties":{"l":{"$ref":"#"},"r":{"$ref":"#"},"c":{"type":"array","items":{"$ref":"#"}}},"additionalProperties":false}`
		within = `{"allOf":[{"properties":{"l":{"$ref":"#"}}}]}`
		double = `{"anyOf":[{"properties":{"l":{"$ref":"#"}},"required":["y"]},{"properties":{"l":{"$ref":"#"}},"required":["z"]}]}`
	)
	nested := func(depth int, innermost string) string {
		return strings.Repeat(`{"l":`, depth) + innermost + strings.Repeat("}", depth)
	}
	for _, c := range []struct{ schema, value, want string }{
		{tree, nested(60, "{}"), ""},
		{tree, nested(60, `{"c":[{},{"l":1}]}`),
			`argument "` + strings.Repeat("l/", 60) + `c/*/l" must be an object, but is 1`},
		{within, nested(300, "{}"), ""},
		{double, nested(60, "{}"), "explodes"},
		{double, nested(4, "{}"), "must fit one of"},
		{`{"properties":{"x":{"anyOf":[` +
			strings.TrimSuffix(strings.Repeat(`{"pattern":"^a"},`, 1000), ",") + `]}}}`,
			`{"x":"` + strings.Repeat("b", 100_000) + `"}`, "explodes"},
	} {
		start := time.Now()
		err := New([]byte(c.schema), "").Check([]byte(c.value))
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60s of %.60s: %v, want %s", c.value, c.schema, err, c.want)
		}
		t.Logf("%.60s of %.60s: %v", c.value, c.schema, time.Since(start))
	}
}
