package config

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

// fieldIndexes is field for structs that are decoded again and again, as fifty tools are: the tags of each type are read once.
type fieldIndexes map[reflect.Type]map[string]int

func (f fieldIndexes) of(t reflect.Type, name string) (index int, ok bool) {
	if f[t] == nil {
		f[t] = map[string]int{}
		for key, field := range structFields(t) {
			f[t][key] = field.Index[0]
		}
	}
	index, ok = f[t][name]
	return index, ok
}
