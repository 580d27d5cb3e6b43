package tools

import (
	"iter"
	"reflect"
)

// field is the field of a struct that a key names.
func field(t reflect.Type, name string) (reflect.StructField, bool) {
	for key, f := range structFields(t) {
		if key == name {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

// structFields are the fields that have a key.
func structFields(t reflect.Type) iter.Seq2[string, reflect.StructField] {
	return func(yield func(string, reflect.StructField) bool) {
		for i := range t.NumField() {
			f := t.Field(i)
			if key := f.Tag.Get("yaml"); key != "" && !yield(key, f) {
				return
			}
		}
	}
}

func fieldNames(t reflect.Type) (names []string) {
	for key := range structFields(t) {
		names = append(names, key)
	}
	return names
}
