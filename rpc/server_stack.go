package rpc

// maxSpare is how many goroutines wait for another call, with stacks of 8 KiB: as many as clients have calls in flight that send them at once.
const maxSpare = 64

// job is a call to be answered.
type job struct {
	call    *call
	handler Handler
}

// start runs a job in a goroutine, one that has answered a call before if there is one: its stack has grown already (see
// growStack).
func (s *session) start(j job) {
	select {
	case s.spare <- j:
	default:
		go s.work(j)
	}
}

// work is the body of the calls' goroutines. When no more calls can come it ends with the one at hand.
func (s *session) work(j job) {
	for more := true; more; {
		growStack() // again, too: the collector shrinks the stacks of goroutines that wait
		j.call.run(j.handler)
		j = job{}
		if more = s.waiting.Add(1) <= maxSpare; more {
			j, more = <-s.spare
		}
		s.waiting.Add(-1)
	}
}

// growStack makes room on a goroutine's stack for what a call takes. A goroutine begins with 2 KiB and is stopped and
// its stack copied, with all frames on it, each time that is too little: three times on the way through encoding/json, a
// quarter of a small call's processor time. At its beginning there is next to nothing to copy. The room is only asked for,
// when the function is entered, and never used, which would clear it.
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
