package rpc

// growStack makes room on a goroutine's stack for what a call takes. A goroutine begins with 2 KiB and is stopped and its
// stack copied, with all frames on it, each time that is too little: three times on the way through a tool and encoding/json, a third of
// a small call's processor time (echo, 64 in flight). At its beginning there is next to nothing to copy. The room is only asked
// for, when the function is entered, and never used, which would clear it.
//
//go:noinline
func growStack() {
	if neverTrue {
		var room [6 << 10]byte // with what the runtime keeps free, 8 KiB
		touch(&room)
	}
}

var neverTrue bool

//go:noinline
func touch(room *[6 << 10]byte) { room[0] = 1 }
