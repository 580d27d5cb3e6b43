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

// fieldIndex is field for structs that are decoded again and again, as fifty tools are: the tags of each type are read once.
func (d *decoder) fieldIndex(t reflect.Type, name string) (index int, ok bool) {
	if d.fields[t] == nil {
		if d.fields == nil {
			d.fields = map[reflect.Type]map[string]int{}
		}
		d.fields[t] = map[string]int{}
		for key, f := range structFields(t) {
			d.fields[t][key] = f.Index[0]
		}
	}
	index, ok = d.fields[t][name]
	return index, ok
}
