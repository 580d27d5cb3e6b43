package rawjson

import (
	"encoding/json"
	"reflect"
	"testing"
)

type exactInner struct {
	Name string `json:"name"`
}

type exactOuter struct {
	exactInner
	Inner  *exactInner            `json:"inner"`
	List   []exactInner           `json:"list"`
	Named  map[string]exactInner  `json:"named"`
	Raw    json.RawMessage        `json:"raw"`
	Any    any                    `json:"any"`
	Untold string                 // has no tag: any spelling will do
	Ptrs   map[string]*exactInner `json:"ptrs"`
}

func TestUnmarshalIsExact(t *testing.T) {
	for text, want := range map[string]string{
		`{"NAME":"x","ſ":1}`:                       `{}`,
		`{"name":"a","Name":"b"}`:                  `{"name":"a"}`,
		`{"n\u0061me":"a"}`:                        `{"name":"a"}`,
		`{"inner":{"Name":"b", "name" : "a"}}`:     `{"inner":{"name":"a"}}`,
		`{"INNER":{"name":"b"},"inner":null}`:      `{"inner":null}`,
		`{"list":[{"NAME":1},{"name":"a"}]}`:       `{"list":[{},{"name":"a"}]}`,
		`{"list":[]}`:                              `{"list":[]}`,
		`{"named":{"NAME":{"NAME":1,"name":"a"}}}`: `{"named":{"NAME":{"name":"a"}}}`,
		`{"raw":{"NAME":1},"any":{"NAME":[1]}}`:    `{"raw":{"NAME":1},"any":{"NAME":[1]}}`,
		`{"untold":"a"}`:                           `{"untold":"a"}`,
		`{"ptrs":{"a":null,"b":{"NAME":1}}}`:       `{"ptrs":{"a":null,"b":{}}}`,
	} {
		var got, wanted exactOuter
		if err := Unmarshal([]byte(text), &got); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if err := json.Unmarshal([]byte(want), &wanted); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, wanted) {
			t.Errorf("%s: got %+v, want %+v", text, got, wanted)
		}
	}
	if err := Unmarshal([]byte(`{"name":`), new(exactOuter)); err == nil {
		t.Error("what is not JSON is read")
	}
}
