package rpc

// GrowStack makes room on a goroutine's stack for what a call takes: one that answers a request or runs a tool begins with it. A goroutine has 2 KiB at first and is stopped and its
// stack copied, with all frames on it, each time that is too little: three times on the way through a schema and encoding/json,
// 15 to 30 % of an echo's processor time. At its beginning there is next to nothing to copy. The room is only asked for, when the function is
// entered, and never used, which would clear it.
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
