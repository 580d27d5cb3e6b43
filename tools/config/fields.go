package config

import "reflect"

// keysOf returns the keys of a struct, in order, and the fields that they set.
func keysOf(t reflect.Type) (keys []string, indexes map[string]int) {
	indexes = map[string]int{}
	for i := range t.NumField() {
		if key := t.Field(i).Tag.Get("yaml"); key != "" {
			keys = append(keys, key)
			indexes[key] = i
		}
	}
	return keys, indexes
}
