package config

import (
	"iter"
	"reflect"
)

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

// fieldIndexes are the fields by their keys.
func fieldIndexes(t reflect.Type) map[string]int {
	indexes := map[string]int{}
	for key, f := range structFields(t) {
		indexes[key] = f.Index[0]
	}
	return indexes
}
