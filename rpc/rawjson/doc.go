// Package rawjson looks at JSON text without decoding it. encoding/json takes some µs for a small object; to walk over one takes 0.1.
//
//	scan.go       Scan: is it one JSON value, and of how many? All other files take this for granted
//	walk.go       Walk: over the members of an object, or the elements of an array; nothing is copied
//	object.go     one member of an object, and an object with another one
//	exact.go      Unmarshal: encoding/json, but that names of members are compared letter by letter
//	escape.go     AppendText: text as a JSON string
//
// It has no goroutines and no locks.
package rawjson
