package config

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
)

// setText sets a value from text: that of a scalar, of a flag or of a variable.
func setText(v reflect.Value, text string) error {
	if t, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return t.UnmarshalText([]byte(text))
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
		return nil
	case reflect.Bool:
		if text == "true" || text == "false" {
			v.SetBool(text == "true")
			return nil
		}
	case reflect.Int:
		var n int
		if json.Unmarshal([]byte(text), &n) == nil {
			v.SetInt(int64(n))
			return nil
		}
	default:
		panic("internal error: config type " + v.Type().String())
	}
	return Wrong(scalarAllowed(v), "%q is no %s", text, strings.TrimPrefix(wanted(v), "a "))
}

func scalarAllowed(v reflect.Value) string {
	if v.Kind() == reflect.Bool {
		return "true, false"
	}
	return "such as 0 or 100"
}

// wanted names the type of a value for a message.
func wanted(v reflect.Value) string {
	switch {
	case v.Type() == reflect.TypeFor[Size]():
		return "a size"
	case v.Addr().Type().Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		return "a duration"
	case v.Kind() == reflect.Bool:
		return "a truth value"
	case v.Kind() == reflect.Int:
		return "a whole number"
	}
	return "text"
}
