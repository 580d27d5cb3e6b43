//go:build amd64 || arm64

package shim

import "unsafe"

// Name is the argv[0] that makes this program a shim.
const Name = "runnel-sandbox"

// Files of a shim: the order, the pipe whose end says that the command runs or will not, the Landlock
// ruleset.
const (
	OrderFile = 3 + iota
	StatusFile
	RulesetFile
)

// Base is the address at which an order is mapped, so that its addresses can be written down before. Nothing
// of a program of Go is there on any system of 64 bits.
const Base uintptr = 64 << 30

// Failure is the exit code of a shim that could not start the command.
const Failure = 126

// Order is the beginning of the memory.
type Order struct {
	Steps uintptr // the address of the first
	Count uint32

	// The shim writes these.
	Failed uint32 // 1 + the step that has failed; 0 = none has
	Errno  uint32 // why
	Ended  uint32 // 1 = the command has ended, and Status says how
	Status uint32 // as wait4(2) says it
	_      uint32
}

// Step is a system call.
type Step struct {
	Number   uintptr
	Args     [6]uintptr
	Indirect uintptr // bits of arguments that are addresses of 32 bits to be passed
	Result   uintptr // where its result is stored in 32 bits; 0 = nowhere
	Ignored  uintptr // the error that is none; 0 = every error ends the shim
}

// Fork is the number of a step that is no system call: what follows is done by a child. The shim waits for
// its end.
const Fork = ^uintptr(0)

// Numbers and flags of the kernel's, which no package may be imported for.
const (
	readOnly      = 0
	closeOnExec   = 0o2000000
	currentDir    = ^uintptr(99)
	seekEnd       = 2
	readWrite     = 1 | 2
	sharedAndHere = 0x1 | 0x100000 // MAP_SHARED | MAP_FIXED_NOREPLACE
	childSignal   = 17
	allChildren   = 0x40000000
	setMask       = 2
	maskSize      = 8
)

// syscall6 makes a system call; above ^uintptr(4095) the result is a negative error.
func syscall6(number, a1, a2, a3, a4, a5, a6 uintptr) uintptr

// None of the functions below may enter Go's runtime: its other threads are missing in the child of fork, and
// a wait for them never ends. A function that looks whether its stack is large enough (nosplit: it
// does not) enters the scheduler if it is to make room for another one. The race detector (norace) and the
// checks of pointers that come with it (nocheckptr) are in the runtime, too.

//go:nosplit
//go:norace
func call(number, a1, a2, a3 uintptr) uintptr { return syscall6(number, a1, a2, a3, 0, 0, 0) }

//go:nosplit
//go:norace
func failed(result uintptr) bool { return result > ^uintptr(4095) }

// This is in init, since every binary that can start a command must be able to be its shim.
func init() {
	if started() {
		run()
	}
}

// The kernel reads and writes these variables. Those of a package never move.
var (
	commandLine = [...]byte{'/', 'p', 'r', 'o', 'c', '/', 's', 'e', 'l', 'f', '/', 'c', 'm', 'd', 'l', 'i',
		'n', 'e', 0}
	line       [len(Name) + 1]byte
	allSignals = ^uint64(0)
	signals    uint64
)

// started reports whether this program was started as a shim.
func started() bool {
	fd := call(sysOpenat, currentDir, uintptr(unsafe.Pointer(&commandLine)), readOnly|closeOnExec)
	if failed(fd) {
		return false // package sandbox then ends the shim
	}
	n := call(sysRead, fd, uintptr(unsafe.Pointer(&line)), uintptr(len(line)))
	call(sysClose, fd, 0, 0)
	return n == uintptr(len(line)) && string(line[:]) == Name+"\x00"
}

// run carries out the order. It exits when a step has failed.
//
//go:nosplit
//go:norace
//go:nocheckptr
func run() {
	size := call(sysLseek, OrderFile, 0, seekEnd)
	if at := syscall6(sysMmap, Base, size, readWrite, sharedAndHere, OrderFile, 0); at != Base {
		exit(Failure)
	}
	order := (*Order)(pointer(Base))
	for i := range uintptr(order.Count) {
		step := (*Step)(pointer(order.Steps + i*unsafe.Sizeof(Step{})))
		if step.Number == Fork {
			fork(order)
			continue
		}
		args := step.Args
		for a := range args {
			if step.Indirect&(1<<a) != 0 {
				args[a] = uintptr(*(*uint32)(pointer(args[a])))
			}
		}
		result := syscall6(step.Number, args[0], args[1], args[2], args[3], args[4], args[5])
		switch {
		case failed(result) && -result != step.Ignored:
			order.Errno = uint32(-result)
			order.Failed = uint32(i) + 1
			exit(Failure)
		case step.Result != 0:
			*(*uint32)(pointer(step.Result)) = uint32(result)
		}
	}
	exit(Failure)
}

// fork returns in a child. This process takes no signals from now on: the command has them, too, and the
// first process of a namespace would end by none of them as others do. It ends with the child, and waits for
// all others that have lost their parents.
//
// The child is a copy of a program of Go with only one of its threads. It makes system calls and nothing
// else, so it misses none of the others.
//
//go:nosplit
//go:norace
//go:nocheckptr
func fork(order *Order) {
	syscall6(sysSigprocmask, setMask, uintptr(unsafe.Pointer(&allSignals)), uintptr(unsafe.Pointer(&signals)),
		maskSize, 0, 0)
	child := call(sysClone, childSignal, 0, 0)
	if child == 0 {
		syscall6(sysSigprocmask, setMask, uintptr(unsafe.Pointer(&signals)), 0, maskSize, 0, 0)
		return
	}
	if failed(child) {
		order.Errno = uint32(-child)
		order.Failed = order.Count
		exit(Failure)
	}
	call(sysClose, StatusFile, 0, 0)
	for {
		ended := syscall6(sysWait4, ^uintptr(0), uintptr(unsafe.Pointer(&order.Status)), allChildren, 0, 0, 0)
		if ended == child {
			order.Ended = 1
			exit(uintptr(order.Status>>8) & 0xff)
		}
		if failed(ended) {
			exit(Failure)
		}
	}
}

//go:nosplit
//go:norace
func exit(code uintptr) {
	for {
		call(sysExitGroup, code, 0, 0)
	}
}

// pointer returns an address outside of Go's memory as a pointer.
//
//go:nosplit
//go:norace
//go:nocheckptr
func pointer(address uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&address)) }
