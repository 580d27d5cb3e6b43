package tools

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"runnel/rpc"
)

// plainStruct reads the arguments of most calls, text, numbers and booleans, into a struct of such members. encoding/json took a ninth of a
// small call's processor time for that. It answers only what it certainly reads as encoding/json does; all else, and every error,
// is left to that. FuzzPlainStruct holds it to it.
type plainStruct []plainMember

type plainMember struct {
	name  string
	field int
}

// plainStructOf is nil for a type that has more than plain members.
func plainStructOf(t reflect.Type) plainStruct {
	if t.Kind() != reflect.Struct || reflect.PointerTo(t).NumMethod() > 0 { // it may have an UnmarshalJSON
		return nil
	}
	s := plainStruct{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, tagged := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Type != reflect.TypeFor[string]() && f.Type != reflect.TypeFor[int]() && f.Type != reflect.TypeFor[float64]() && f.Type != reflect.TypeFor[bool](),
			!f.IsExported(), f.Anonymous, name == "-", tagged && options != "omitempty", name != "" && !isToolName(name):
			return nil
		case name == "":
			name = f.Name
		}
		if slices.ContainsFunc(s, func(m plainMember) bool { return m.name == name }) {
			return nil
		}
		s = append(s, plainMember{name, i})
	}
	return s
}

// read reads arguments into a value of the type. It reports false if they are not that plain, and what it has set may then be set again.
func (s plainStruct) read(arguments []byte, to reflect.Value) bool {
	if s == nil || !json.Valid(arguments) || arguments[0] != '{' {
		return false
	}
	plain := true
	rpc.EachMember(arguments, func(name, value []byte) bool {
		i := slices.IndexFunc(s, func(m plainMember) bool { return m.name == string(name) })
		plain = i >= 0 && setPlain(to.Field(s[i].field), value)
		return plain
	})
	return plain
}

func setPlain(field reflect.Value, value json.RawMessage) bool {
	c := value[0]
	number := c == '-' || c >= '0' && c <= '9'
	switch kind := field.Kind(); {
	case kind == reflect.String && c == '"' && bytes.IndexByte(value, '\\') < 0 && utf8.Valid(value):
		field.SetString(string(value[1 : len(value)-1]))
	case kind == reflect.Bool && (c == 't' || c == 'f'):
		field.SetBool(c == 't')
	case kind == reflect.Int && number:
		n, err := strconv.ParseInt(string(value), 10, strconv.IntSize)
		field.SetInt(n)
		return err == nil
	case kind == reflect.Float64 && number:
		n, err := strconv.ParseFloat(string(value), 64)
		field.SetFloat(n)
		return err == nil
	default:
		return false
	}
	return true
}
