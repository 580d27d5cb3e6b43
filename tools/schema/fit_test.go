package schema

import "testing"

// Models and clients send these values. What the schema leaves in doubt is an error that says what was
// expected and what came.
func TestWhatIsMeant(t *testing.T) {
	t.Parallel()
	const properties = `"s":{"type":"string"},"n":{"type":"number","description":"how \"many\""},"i":{"type":"integer"},"b":{"type":"boolean"},` +
		`"l":{"type":"array","items":{"type":"integer"}},"o":{"type":"object","properties":{"i":{"type":"integer"},"b":{"type":"boolean"}},"required":["b"]},` +
		`"maybe":{"anyOf":[{"type":"integer"},{"type":"null"}]},"text":{"type":["string","integer"]},"any":{},"of":{"enum":[1,2]},"ref":{"$ref":"#/$defs/i"},"null":{"type":["null","integer"]}`
	const defs = `,"$defs":{"i":{"type":"integer","maximum":9}},"additionalProperties":false`
	for _, c := range []struct{ required, value, want string }{
		{``, `{"s":null,"i":null,"l":null,"o":null,"of":null,"ref":null}`, `{}`},
		{``, ` {"s":"x", "i":null , "b":true} `, `{"s":"x","b":true}`},
		{``, `{"n":"3","i":" 12345678901234567890 ","b":"true"}`,
			`{"n":3,"i":12345678901234567890,"b":true}`},
		{``, `{"n":"1e3","i":"2.0","b":"false","of":"2","ref":"3"}`,
			`{"n":1e3,"i":2.0,"b":false,"of":2,"ref":3}`},
		{``, `{"l":"[\"1\", 2]"}`, `{"l":[1,2]}`},
		{``, `{"o":"{\"b\": \"true\", \"i\": null}"}`, `{"o":{"b":true}}`},
		{``, `{"maybe":"3","text":"3","any":"3","null":null}`,
			`{"maybe":3,"text":"3","any":"3","null":null}`},
		{``, `{"maybe":null,"any":null,"i":"1"}`, `{"maybe":null,"any":null,"i":1}`}, // null is valid here
		{``, `{"s":"null","any":"[1]","text":"[1]"}`, `{"s":"null","any":"[1]","text":"[1]"}`},
		{`"s"`, `{"s":null}`, `argument "s" must be a string, but is null`},
		{`"n"`, `{"n":null}`, `argument "n" must be a number, but is null`},
		{`"n"`, `{}`, `argument "n" is missing: a number ("how \"many\"")`},
		{`"n","text"`, `{}`, `argument "n" is missing: a number ("how \"many\""); "text" is missing: a string or an integer`},
		{`"n"`, `{"n":"3"}`, `{"n":3}`},
		{``, `{"o":{}}`, `argument "o/b" is missing: true or false`},
		{``, `{"i":"three"}`, `argument "i" must be an integer, but is "three"`},
		{``, `{"i":""}`, `argument "i" must be an integer, but is ""`},
		{``, `{"i":"1.5"}`, `argument "i" must be an integer, but is 1.5`},
		{``, `{"i":"null"}`, `argument "i" must be an integer, but is "null"`},
		{``, `{"i":"[1]"}`, `argument "i" must be an integer, but is "[1]"`},
		{``, `{"i":"0x10"}`, `argument "i" must be an integer, but is "0x10"`},
		{``, `{"i":true}`, `argument "i" must be an integer, but is true`},
		{``, `{"b":"yes"}`, `argument "b" must be true or false, but is "yes"`},
		{``, `{"l":"a,b"}`, `argument "l" must be an array, but is "a,b"`},
		{``, `{"l":3}`, `argument "l" must be an array, but is 3`},
		{``, `{"s":3}`, `argument "s" must be a string, but is 3`},
		{``, `{"ref":"12"}`, `argument "ref" must be at most 9, but is 12`},
		{``, `{"maybe":"x"}`, `argument "maybe" must fit one of [{"type":"integer"},{"type":"null"}], but is "x"`},
		{``, `{"unknown":null}`, `additional properties "unknown" not allowed; allowed are any, b, i, l, maybe, n, null, o, of, ref, s, text`},
	} {
		checker := New([]byte(`{"type":"object","properties":{`+properties+`},"required":[`+c.required+`]`+
			defs+`}`), "")
		for range 2 {
			value := []byte(c.value)
			fitted, err := checker.Fit(value)
			got := string(fitted)
			if err != nil {
				got = err.Error()[len("invalid arguments: "):]
			}
			if got != c.want {
				t.Errorf("%s:\n got %s\nwant %s", c.value, got, c.want)
			}
			if string(value) != c.value {
				t.Errorf("%s became %s", c.value, value)
			}
		}
	}
}

// A schema that refers to itself, and one without types.
func TestWhatIsMeantDeepInside(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ schema, value, want string }{
		{`{"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{"v":{"type":"integer"},"c":{"$ref":"#/$defs/n"}}}}}`, `{"c":{"v":"1","c":{"v":null}}}`, `{"c":{"v":1,"c":{}}}`},
		{`{"properties":{"a":{"minimum":1}}}`, `{"a":0}`, `argument "a" must be at least 1, but is 0`},
		{`{"properties":{"a":{"oneOf":[{"type":"integer"},{"minimum":1}]}}}`, `{"a":"0"}`, `{"a":"0"}`},
	} {
		fitted, err := New([]byte(c.schema), "").Fit([]byte(c.value))
		got := string(fitted)
		if err != nil {
			got = err.Error()[len("invalid arguments: "):]
		}
		if got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.value, got, c.want)
		}
	}
}
