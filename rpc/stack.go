package rpc

// GrowStack grows a goroutine's stack to what a call needs. Call it first in a goroutine that answers a
// request or runs a tool. A goroutine starts with 2 KiB, and each time that is too little, it is stopped and
// its stack is copied with all its frames: three times on the way through a schema and encoding/json, 15 to
// 30 % of an echo's processor time. At the start there is hardly anything to copy. Entering the function is
// enough to get the space; using it would also clear it.
//
//go:noinline
func GrowStack() {
	if neverTrue {
		var room [14 << 10]byte // with what the runtime keeps free, 16 KiB
		touch(&room)
	}
}

var neverTrue bool

//go:noinline
func touch(room *[14 << 10]byte) { room[0] = 1 }
