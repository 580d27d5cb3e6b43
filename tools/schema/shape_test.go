package schema

import (
	"bytes"
	"encoding/json"
	"testing"
)

// What has a shape is a schema, and what the shape accepts the schema accepts; what it does not know is left to the schema.
func FuzzShape(f *testing.F) {
	const simple = `{"type":"object","properties":{"a":{"type":"string","description":"d"},"b":{"type":"integer"},"c":{"type":"number","default":1},"d":{"type":"boolean"},"e":{}},"required":["a","b"]}`
	for _, s := range []string{simple, `{"type":"object"}`, `{"type":"object","additionalProperties":false}`,
		`{"type":"object","properties":{"a":{"type":"string","minLength":2}}}`, `{"type":"object","required":["x","x"]}`, `{"title":1,"properties":{"a":null}}`} {
		for _, a := range []string{`{}`, `{"a":"x","b":1}`, `{"a":"x","b":1.0,"c":-1e3,"d":true,"e":null,"f":[]}`, `{"\u0061":"x","b":-0}`, `{"a":1,"a":"x","b":2}`, `{"b":1}`} {
			f.Add([]byte(s), []byte(a))
		}
	}
	f.Fuzz(func(t *testing.T, source, arguments []byte) {
		arguments = bytes.TrimSpace(arguments)
		if !json.Valid(arguments) || arguments[0] != '{' {
			return
		}
		s := shapeOf(source)
		if s == nil {
			return
		}
		if _, err := Compile(source); err != nil {
			t.Fatalf("%s has a shape: %v", source, err)
		}
		if !s.fits(arguments) {
			return
		}
		if err := (&Schema{source: source}).checkSlowly(arguments); err != nil {
			t.Errorf("%s fits the shape of %s: %v", arguments, source, err)
		}
	})
}

func TestShapeIsUsed(t *testing.T) {
	s := shapeOf([]byte(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"],"additionalProperties":false}`))
	for arguments, want := range map[string]bool{`{"text":"x"}`: true, `{"text":1}`: false, `{}`: false, `{"text":"x","y":1}`: false} {
		if got := s.fits([]byte(arguments)); got != want {
			t.Errorf("%s fits: %v, want %v", arguments, got, want)
		}
	}
}
