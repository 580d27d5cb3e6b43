package jsonschema

import (
	"encoding"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"time"
)

// Infer describes the JSON that encoding/json reads into a type. A member is required unless its tag says omitempty or
// omitzero, `jsonschema:"text"` describes it, and others than the fields are refused.
func Infer(t reflect.Type) (json.RawMessage, error) {
	s, err := infer(t, nil)
	if err != nil {
		return nil, err
	}
	return json.Marshal(s)
}

// inferred has the keywords in the order they are written.
type inferred struct {
	Type                 any             `json:"type,omitempty"` // a string, or some
	Description          string          `json:"description,omitempty"`
	Minimum              *int64          `json:"minimum,omitempty"`
	Maximum              *int64          `json:"maximum,omitempty"`
	Items                *inferred       `json:"items,omitempty"`
	MinItems             int             `json:"minItems,omitempty"`
	MaxItems             *int            `json:"maxItems,omitempty"`
	Properties           json.RawMessage `json:"properties,omitempty"` // in the order of the fields
	Required             []string        `json:"required,omitempty"`
	AdditionalProperties any             `json:"additionalProperties,omitempty"`
}

var (
	timeType = reflect.TypeFor[time.Time]()
	rawType  = reflect.TypeFor[json.RawMessage]()
	textType = reflect.TypeFor[encoding.TextMarshaler]()
)

// infer describes a type within others.
func infer(t reflect.Type, outer []reflect.Type) (*inferred, error) {
	orNull := false
	for t.Kind() == reflect.Pointer {
		t, orNull = t.Elem(), true
	}
	for _, o := range outer {
		if o == t && t.Name() != "" {
			return nil, fmt.Errorf("%v holds itself", t)
		}
	}
	outer = append(outer, t)
	s := &inferred{}
	kind := ""
	var err error
	switch t {
	case timeType:
		kind = "string"
	case rawType:
	default:
		switch t.Kind() {
		case reflect.Bool:
			kind = "boolean"
		case reflect.String:
			kind = "string"
		case reflect.Float32, reflect.Float64:
			kind = "number"
		case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
			kind = "integer"
			if t.Bits() < 64 {
				s.Minimum, s.Maximum = new(int64(math.MinInt64>>(64-t.Bits()))), new(int64(math.MaxInt64>>(64-t.Bits())))
			}
		case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
			kind, s.Minimum = "integer", new(int64(0))
			if t.Bits() < 64 {
				s.Maximum = new(int64(1)<<t.Bits() - 1)
			}
		case reflect.Interface:
		case reflect.Slice, reflect.Array:
			kind, orNull = "array", orNull || t.Kind() == reflect.Slice
			if t.Kind() == reflect.Array {
				s.MinItems, s.MaxItems = t.Len(), new(t.Len())
			}
			s.Items, err = infer(t.Elem(), outer)
		case reflect.Map:
			if t.Key().Kind() != reflect.String && !t.Key().Implements(textType) {
				return nil, fmt.Errorf("%v: the keys of a map must be strings", t)
			}
			kind = "object"
			s.AdditionalProperties, err = infer(t.Elem(), outer)
		case reflect.Struct:
			kind, s.AdditionalProperties = "object", false
			err = s.fields(t, outer)
		default:
			return nil, fmt.Errorf("%v has no JSON", t)
		}
	}
	switch {
	case orNull && kind != "":
		s.Type = []string{"null", kind}
	case kind != "":
		s.Type = kind
	}
	return s, err
}

// fields describes those of a struct.
func (s *inferred) fields(t reflect.Type, outer []reflect.Type) error {
	var members []byte
	for _, f := range reflect.VisibleFields(t) {
		name, options, more := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || !f.IsExported() || name == "-" && !more {
			continue
		}
		if name == "" {
			name = f.Name
		}
		part, err := infer(f.Type, outer)
		if err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
		part.Description = f.Tag.Get("jsonschema")
		member, err := json.Marshal(map[string]any{name: part})
		if err != nil {
			return err
		}
		members = append(append(members, member[1:len(member)-1]...), ',')
		if !strings.Contains(options, "omitempty") && !strings.Contains(options, "omitzero") {
			s.Required = append(s.Required, name)
		}
	}
	if len(members) > 0 {
		members[len(members)-1] = '}'
		s.Properties = append([]byte{'{'}, members...)
	}
	return nil
}
