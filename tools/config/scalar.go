package config

import (
	"encoding"
	"reflect"
	"strconv"
)

// short is a struct or a list that may be written as one word.
type short interface{ setShort(text string) error }

// isShort reports whether a value is a short.
func isShort(v reflect.Value) bool { return v.Addr().Type().Implements(reflect.TypeFor[short]()) }

// setText sets a value from the text of a scalar, a flag or a variable.
func setText(v reflect.Value, text string) error {
	if t, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return t.UnmarshalText([]byte(text))
	}
	if s, ok := v.Addr().Interface().(short); ok {
		return s.setShort(text)
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return setText(v.Elem(), text)
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		if text != "true" && text != "false" {
			return Wrong("true, false", "%q is not a truth value", text)
		}
		v.SetBool(text == "true")
	case reflect.Int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return Wrong("such as 0 or 100", "%q is not a whole number", text)
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
	case v.Type() == reflect.TypeFor[Duration](), v.Type() == reflect.TypeFor[Drain]():
		return "a duration"
	case v.Kind() == reflect.Bool:
		return "a truth value"
	case v.Kind() == reflect.Int:
		return "a whole number"
	}
	return "text"
}
