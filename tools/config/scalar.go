package config

import (
	"encoding"
	"reflect"
	"strconv"
)

// setText sets a value from text: that of a scalar, of a flag or of a variable.
func setText(v reflect.Value, text string) error {
	if t, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return t.UnmarshalText([]byte(text))
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		if text != "true" && text != "false" {
			return Wrong("true, false", "%q is no truth value", text)
		}
		v.SetBool(text == "true")
	case reflect.Int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return Wrong("such as 0 or 100", "%q is no whole number", text)
		}
		v.SetInt(int64(n))
	default:
		panic("internal error: config type " + v.Type().String())
	}
	return nil
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
