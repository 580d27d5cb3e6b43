package model

import (
	"strings"
	"testing"
	"testing/synctest"

	"runnel/internal/modeltest"
)

// asJSON is a question whose answer is JSON.
func asJSON(api, schema string) string {
	return strings.TrimSuffix(question(api), "}") + ", structured: json" + schema + "}"
}

// An answer as JSON is asked for in the provider's own way, checked, and is the structured content.
func TestStructured(t *testing.T) {
	const exact = `, outputSchema: {type: object, properties: {n: {type: integer}}, required: [n], additionalProperties: false}`
	const loose = `, outputSchema: {properties: {n: {type: integer}}}`
	for api, want := range map[string][3]string{
		"anthropic": {`"output_config":{"format":{"schema":{"properties":{"n":{"type":"integer"}},"required":["n"],"type":"object","additionalProperties":false},"type":"json_schema"}}`,
			`"schema":{"properties":{"n":{"type":"integer"}},"type":"object","additionalProperties":false}`, `"max_tokens"`},
		"openai":    {`"response_format":{"json_schema":{"name":"answer","schema":{"additionalProperties":false,`, `"strict":false},"type":"json_schema"}`, `"response_format":{"type":"json_object"}`},
		"responses": {`"text":{"format":{"name":"answer","schema":{"additionalProperties":false,`, `"strict":false,"type":"json_schema"}}`, `"text":{"format":{"type":"json_object"}}`},
		"ollama":    {`"format":{"additionalProperties":false,`, `"format":{"properties":`, `"format":"json"`},
	} {
		for i, schema := range []string{exact, loose, ""} {
			t.Run(api+schema, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m := parse(t, asJSON(api, schema))
					called, asked := ask(t, m, modeltest.Answer{Tokens: []string{` {"n"`, `: 7}`, "\n"}})
					if called.IsError || string(called.StructuredContent) != `{"n": 7}` || !strings.Contains(called.Text(), `{"n": 7}`) {
						t.Errorf("%v %s %q", called.IsError, called.StructuredContent, called.Text())
					}
					if text := asked[0].Text; !strings.Contains(text, want[i]) || strings.Contains(text, `"strict":true`) != (i == 0 && strings.Contains(text, `"strict"`)) {
						t.Errorf("the request has not %s:\n%s", want[i], text)
					}
				})
			})
		}
	}
}

// OpenAI is asked to be strict with what it can hold to, and Anthropic gets closed objects and the keywords
// that it takes, or no schema.
func TestSchemasOfProviders(t *testing.T) {
	const n = `"properties":{"n":{"type":"integer"}}`
	const inner, closedInner = `{"type":"object",` + n + `}`, `{"type":"object",` + n + `,"additionalProperties":false}`
	for schema, want := range map[string]struct {
		strict bool
		closed string
	}{
		`{"type":"object"}`:                 {},
		`{}`:                                {},
		`true`:                              {},
		`{"type":"object","properties":{}}`: {},
		`{"type":"object",` + n + `}`:       {false, closedInner},
		`{"type":"object",` + n + `,"required":["n"]}`:                                                                                                     {false, `{"type":"object",` + n + `,"required":["n"],"additionalProperties":false}`},
		`{"type":"object",` + n + `,"additionalProperties":false}`:                                                                                         {false, closedInner},
		`{"additionalProperties":false,"type":"object",` + n + `,"required":["n"]}`:                                                                        {true, `{"type":"object",` + n + `,"required":["n"],"additionalProperties":false}`},
		`{"type":"object",` + n + `,"required":["m"],"additionalProperties":false}`:                                                                        {},
		`{"type":"object",` + n + `,"additionalProperties":{"type":"string"}}`:                                                                             {},
		`{"type":"object",` + n + `,"additionalProperties":true}`:                                                                                          {},
		`{"type":"object","patternProperties":{"a":{}},` + n + `}`:                                                                                         {},
		`{"type":"object","properties":{"a":{}},"required":["a"],"additionalProperties":false}`:                                                            {},
		`{"type":"object","properties":{"a":{"anyOf":[` + inner + `,{"type":"null"}]}},"required":["a"],"additionalProperties":false}`:                     {false, `{"type":"object","properties":{"a":{"anyOf":[` + closedInner + `,{"type":"null"}]}},"required":["a"],"additionalProperties":false}`},
		`{"type":"object","properties":{"a":{"type":"array","items":` + inner + `}},"required":["a"],"additionalProperties":false}`:                        {false, `{"type":"object","properties":{"a":{"type":"array","items":` + closedInner + `}},"required":["a"],"additionalProperties":false}`},
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/b"}},"required":["a"],"additionalProperties":false,"$defs":{"b":{"type":["object","null"]}}}`: {},
		`{"type":"object","properties":{"a":{"type":"integer","minimum":3}},"required":["a"],"additionalProperties":false}`:                                {true, `{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],"additionalProperties":false}`},
		`{"type":"object","properties":{"a":{"type":"string","minLength":3}},"required":["a"],"additionalProperties":false}`:                               {false, `{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}`},
		`{"type":"object","anyOf":[` + inner + `],"properties":{"n":{"type":"null"}},"required":["n"],"additionalProperties":false}`:                       {false, `{"type":"object","anyOf":[` + closedInner + `],"properties":{"n":{"type":"null"}},"required":["n"],"additionalProperties":false}`},
		`{"type":"object","oneOf":[` + inner + `],"properties":{"n":{"type":"null"}},"required":["n"],"additionalProperties":false}`:                       {},
	} {
		for range 2 {
			if strict, sent := isStrict([]byte(schema)), string(closed([]byte(schema))); strict != want.strict || sent != want.closed {
				t.Errorf("%s:\nstrict %v, Anthropic gets %s\nwant   %v, %s", schema, strict, sent, want.strict, want.closed)
			}
		}
	}
}

// What is not the JSON that was asked for is an error, which shows it.
func TestStructuredIsWrong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := parse(t, asJSON("openai", `, outputSchema: {properties: {n: {type: integer}}, required: [n]}`))
		for said, want := range map[string]string{"hm": "it is not JSON", "[1]": "it is not an object", `{"m":1}`: `invalid members: member "n" is missing`} {
			called, _ := ask(t, m, modeltest.Answer{Tokens: []string{said}})
			if !called.IsError || called.StructuredContent != nil || !strings.HasPrefix(called.Text(), said+"\nthe answer is not the expected JSON: "+want) {
				t.Errorf("%q: %v %q", said, called.IsError, called.Text())
			}
		}
		called, _ := ask(t, m, modeltest.Answer{Tokens: []string{`{"n`}, Stop: "length"})
		if want := "{\"n\nthe answer is not whole: it has reached its limit of 4096 tokens (maxTokens)"; !called.IsError || called.Text() != want {
			t.Errorf("%q", called.Text())
		}
	})
}
