package command

import (
	"encoding/json"
	"strings"
	"testing"

	"runnel/tools/config"
	"runnel/tools/schema"
)

// What is taken for certain must be what the compiler accepts, defaults and all.
func FuzzCertainInput(f *testing.F) {
	for _, source := range []string{
		`{"files":{"type":"array","items":{"type":"string"},"default":["./..."]},"count":{"type":"integer","minimum":1,"description":"how many"}}`,
		`{"a":{"type":"string","enum":["x"],"default":"x"},"b":{"type":"boolean","default":null},"c":true,"d":{"default":[1,{}]}}`,
		`{"a":{"type":"array","items":{"type":"array","items":{"type":"number"}},"default":[[1],[2.5]]},"b":{"type":"object","properties":{"c":{}},"required":["c"]}}`,
		`{"type":"object","properties":{"a":{"type":"string","maxLength":2}},"required":["a"],"additionalProperties":{"type":"string"}}`,
		`{"a":{"type":"integer","default":1.0},"b":{"type":["string"]},"c":{"pattern":"("},"d":false,"e":{"type":"array","default":[]}}`,
		`{"a":{"type":"array","items":{"type":"string"},"default":[1]},"b":{"minimum":-1},"c":{"items":[{}]},"d":{"default":1,"type":"string"}}`,
		`{"type":"object","properties":{"a":{"type":"string","default":1}},"properties":{"a":{"items":{"x":1}}}}`,
		`{"a":{"type":null},"b":{"type":"null"},"c":{"items":{"type":null}},"d":{"properties":{"e":{"type":null}}},"f":{"additionalProperties":{"type":null}}}`,
		`{"a":{"required":[null]},"b":{"required":["x","x"]},"c":{"enum":[null,"x","x"]}}`, "{\"\xec\":{\"default\":\"\"}}", `{"\ud800":{"default":""}}`,
	} {
		f.Add([]byte(source))
	}
	f.Fuzz(func(t *testing.T, source []byte) {
		if !json.Valid(source) {
			return
		}
		in, err := parseInputs(config.Object(source), nil)
		if err != nil || !certainInput(in) {
			return
		}
		compiled, err := schema.Compile(in.schema)
		if err != nil {
			t.Fatalf("%s: %v", in.schema, err)
		}
		key := inputKey{}
		for _, name := range in.names {
			if err := key.checkDefault(compiled, name, in.defaults[name]); err != nil {
				t.Errorf("%s: %v", in.schema, err)
			}
		}
	})
}

func TestCertainInputs(t *testing.T) {
	t.Parallel()
	for input, want := range map[string]bool{
		`{}`: true,
		`{"files":{"type":"array","items":{"type":"string"},"default":["./..."]},"count":{"type":"integer","minimum":1,"description":"how many"}}`: true,
		`{"type":"object","properties":{"a":{"enum":["x","y"]}},"required":["a"]}`:                                                                 true,
		`{"a":{"type":"string","default":1}}`:                                   false,
		`{"a":{"type":"integer","minimum":1,"default":0}}`:                      false,
		`{"a":{"type":"array","items":{"type":"string"},"default":["x",1]}}`:    false,
		`{"a":{"type":"strng"}}`:                                                false,
		`{"a":{"type":"null"}}`:                                                 true,
		`{"a":{"type":null}}`:                                                   false,
		`{"a":{"type":"array","items":{"type":null}}}`:                          false,
		`{"a":{"properties":{"b":{"type":null}}}}`:                              false,
		`{"a":{"additionalProperties":{"type":null}}}`:                          false,
		`{"a":{"type":null,"default":null}}`:                                    false,
		`{"a":{"items":null}}`:                                                  false,
		`{"a":{"properties":null}}`:                                             false,
		`{"a":{"title":null}}`:                                                  false,
		`{"a":{"items":[{}]}}`:                                                  false,
		`{"a":{"minLength":"1"}}`:                                               false,
		`{"a":{"anyOf":[{}]}}`:                                                  false,
		`{"a":{"title":"` + strings.Repeat("x", 1<<16) + `"}}`:                  false,
		`{"type":"object","properties":{"a":true},"$ref":"#/properties/a"}`:     false,
		`{"type":"object","properties":{"a":{"enum":["x"],"default":"other"}}}`: false,
	} {
		in, err := parseInputs(config.Object(input), nil)
		if err != nil {
			t.Errorf("%s: %v", input, err)
			continue
		}
		if got := certainInput(in); got != want {
			t.Errorf("%.80s: %v, want %v", input, got, want)
		}
	}
}
