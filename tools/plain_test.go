package tools

import (
	"encoding/json"
	"reflect"
	"testing"
	"unicode/utf8"

	"runnel/rpc/mcp"
)

// What plainCallParams reads, encoding/json reads as well, and the same.
func FuzzPlainCallParams(f *testing.F) {
	for _, s := range []string{
		`{"name":"echo","arguments":{"text":"hello"}}`,
		`{"_meta":{"progressToken":1},"name":"echo","arguments":{}}`,
		`{"arguments":{"a":[1,{"b":"}"}]},"name":"echo"}`,
		`{"name":"a","name":"b","arguments":{}}`,
		`{"name":"a","arguments":{},"arguments":{"x":1}}`,
		`{"name":"a\u0062","arguments":{}}`,
		`{"n\u0061me":"a","arguments":{}}`,
		`{"Name":"a","arguments":{}}`,
		`{"name":"a","arguments":{},"task":{}}`,
		`{"name":"","arguments":{}}`,
		`{"name":"a","arguments":null}`,
		` {"name" : "a" , "arguments" : { } } `,
		`[]`, `{}`, `"name"`, `null`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, params []byte) {
		if !json.Valid(params) || !utf8.Valid(params) {
			return // the line was checked before
		}
		got, ok := plainCallParams(params)
		if !ok {
			return
		}
		var want mcp.CallToolParams
		if err := json.Unmarshal(params, &want); err != nil {
			t.Fatalf("%s was taken: %v", params, err)
		}
		if !reflect.DeepEqual(*got, want) {
			t.Fatalf("%s was read as\n%+v, want\n%+v", params, *got, want)
		}
	})
}
