package rpc

import (
	"bytes"

	"runnel/rpc/rawjson"
)

// EachMember is rawjson.EachMember.
func EachMember(object []byte, f func(name, value []byte) bool) { rawjson.EachMember(object, f) }

// EachElement is rawjson.EachElement.
func EachElement(array []byte, f func(value []byte) bool) { rawjson.EachElement(array, f) }

// appendMember appends a member to an object that has been begun. Its name is quoted.
func appendMember(to *bytes.Buffer, name, value []byte) {
	if to.Len() > 1 {
		to.WriteByte(',')
	}
	to.Write(name)
	to.WriteByte(':')
	to.Write(value)
}
