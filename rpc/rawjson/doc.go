// Package rawjson reads JSON text without decoding it. encoding/json takes some µs for a small object;
// walking over it takes 0.1.
//
//	scan.go       Scan: whether a text is one valid JSON value. All else but Unmarshal relies on that
//	scan.go       Walk: over the members of an object or the elements of an array, without copying
//	object.go     Member, WithMember: reading and replacing one member of an object
//	object.go     Unmarshal: encoding/json with exact names of members
//	object.go     Rewrite: a value with other strings and numbers
//	escape.go     AppendText: text as a JSON string
//
// It has no goroutines and no locks.
package rawjson
