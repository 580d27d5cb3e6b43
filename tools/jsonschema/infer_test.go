package jsonschema_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	google "github.com/google/jsonschema-go/jsonschema"

	"runnel/tools/jsonschema"
)

type place struct {
	X, Y float64
}

type everything struct {
	place
	Name     string            `json:"name" jsonschema:"whom to greet, \"quoted\""`
	Count    int               `json:"count,omitempty"`
	Small    int8              `json:"small,omitzero"`
	Wide     uint32            `json:"wide"`
	Unsigned uint64            `json:"unsigned"`
	Yes      bool              `json:",omitempty"`
	Maybe    *string           `json:"maybe"`
	List     []place           `json:"list"`
	Pair     [2]int16          `json:"pair"`
	Named    map[string]*place `json:"named"`
	Any      any               `json:"any" jsonschema:"anything"`
	When     time.Time         `json:"when"`
	Empty    struct{}          `json:"empty"`
	Hidden   string            `json:"-"`
	private  string
}

// What is inferred is what the library infers whose rules these are, byte for byte.
func TestInfer(t *testing.T) {
	_ = everything{}.private
	for _, typ := range []reflect.Type{reflect.TypeFor[everything](), reflect.TypeFor[struct{}](), reflect.TypeFor[map[string]int](), reflect.TypeFor[*place]()} {
		got, err := jsonschema.Infer(typ)
		if err != nil {
			t.Fatal(err)
		}
		s, err := google.ForType(typ, nil)
		if err != nil {
			t.Fatal(err)
		}
		want, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Errorf("%v:\n got %s\nwant %s", typ, got, want)
		}
		if _, err := jsonschema.Compile(got); err != nil {
			t.Errorf("%s: %v", got, err)
		}
	}
}

func TestInferRefuses(t *testing.T) {
	type cycle struct{ Next *cycle }
	for _, typ := range []reflect.Type{reflect.TypeFor[cycle](), reflect.TypeFor[struct{ F func() }](), reflect.TypeFor[map[int]string](), reflect.TypeFor[chan int]()} {
		if s, err := jsonschema.Infer(typ); err == nil {
			t.Errorf("%v: %s", typ, s)
		}
	}
}
