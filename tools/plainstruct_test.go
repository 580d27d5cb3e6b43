package tools

import (
	"encoding/json"
	"reflect"
	"testing"
)

type plainInput struct {
	Text   string  `json:"text"`
	Number float64 `json:"number,omitempty"`
	Count  int
	Yes    bool `json:"yes"`
}

// What a plainStruct reads, encoding/json reads as well, and the same.
func FuzzPlainStruct(f *testing.F) {
	for _, s := range []string{
		`{"text":"hello","number":1.5e3,"Count":-12,"yes":true}`, `{}`, ` {"text" : "ä" } `, `{"text":"a","text":"b"}`, `{"text":"a","text":null}`,
		`{"TEXT":"a"}`, `{"count":1}`, `{"t\u0065xt":"a"}`, `{"text":"\u0061"}`, "{\"text\":\"\xff\"}", `{"text":1}`, `{"text":{}}`, `{"more":[1,{}]}`,
		`{"Count":1.0}`, `{"Count":1e2}`, `{"Count":9223372036854775808}`, `{"Count":-0}`, `{"number":1e999}`, `{"number":-0}`, `{"yes":false}`, `{"yes":"true"}`,
		`[]`, `null`, ``, `{`, `{"text":"a"`, `"text"`,
	} {
		f.Add([]byte(s))
	}
	s := plainStructOf(reflect.TypeFor[plainInput]())
	f.Fuzz(func(t *testing.T, arguments []byte) {
		var got, want plainInput
		plain := s.read(arguments, reflect.ValueOf(&got).Elem())
		err := json.Unmarshal(arguments, &want)
		if plain && (err != nil || got != want) {
			t.Fatalf("%s was read as %+v, want %+v (%v)", arguments, got, want, err)
		}
		// What it has left half done is as encoding/json would have found it.
		if again := json.Unmarshal(arguments, &got); again == nil && got != want {
			t.Fatalf("%s was read as %+v in two steps, want %+v", arguments, got, want)
		}
	})
}

// own reads itself.
type own struct{ A string }

func (o *own) UnmarshalJSON([]byte) error { return nil }

// What is no struct of plain members, reads itself, or has names that encoding/json treats in its own way, is left to that.
func TestPlainStructs(t *testing.T) {
	type text string
	type inner struct{ A string }
	for _, c := range []struct {
		of    any
		plain bool
	}{
		{plainInput{}, true},
		{streamInput{}, true},
		{struct{}{}, true},
		{"", false},
		{map[string]string{}, false},
		{struct{ A text }{}, false},
		{struct{ A json.Number }{}, false},
		{struct{ A *string }{}, false},
		{struct{ A []int }{}, false},
		{struct{ A inner }{}, false},
		{struct{ inner }{}, false},
		{own{}, false},
		{struct{ A, b string }{}, false},
		{struct {
			A int `json:"a,string"`
		}{}, false},
		{struct {
			A string `json:"-"`
		}{}, false},
		{struct {
			A string `json:"a b"`
		}{}, false},
		{struct {
			A string
			B string `json:"A"`
		}{}, false},
	} {
		if got := plainStructOf(reflect.TypeOf(c.of)) != nil; got != c.plain {
			t.Errorf("%T: %v", c.of, got)
		}
	}
}
