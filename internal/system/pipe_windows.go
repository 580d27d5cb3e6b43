package system

import (
	"crypto/rand"
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

// pipeRoom is how many bytes a pipe holds, as on Linux.
const pipeRoom = 64 << 10

// Pipe makes a pipe whose reader has deadlines. A child may inherit the writer.
//
// Pipes of CreatePipe have no deadlines: a read occupies a thread until data comes. A named pipe can be read
// as a file that the runtime's poller watches.
func Pipe() (read, write *os.File, err error) {
	name, err := windows.UTF16PtrFromString(`\\.\pipe\runnel-` + rand.Text())
	if err != nil {
		return nil, nil, err
	}
	r, err := windows.CreateNamedPipe(name,
		windows.PIPE_ACCESS_INBOUND|windows.FILE_FLAG_OVERLAPPED|windows.FILE_FLAG_FIRST_PIPE_INSTANCE,
		windows.PIPE_TYPE_BYTE|windows.PIPE_REJECT_REMOTE_CLIENTS, 1, pipeRoom, pipeRoom, 0, nil)
	if err != nil {
		return nil, nil, os.NewSyscallError("CreateNamedPipe", err)
	}
	w, err := windows.CreateFile(name, windows.GENERIC_WRITE, 0, nil, windows.OPEN_EXISTING, 0, 0)
	if err != nil {
		_ = windows.CloseHandle(r)
		return nil, nil, os.NewSyscallError("CreateFile", err)
	}
	return os.NewFile(uintptr(r), "|0"), os.NewFile(uintptr(w), "|1"), nil
}

// Widen does nothing: a pipe has its size from the start.
func Widen(*os.File, int) {}

// Readable reports whether a pipe has unread data. f may be nil.
func Readable(f *os.File) bool {
	raw, err := f.SyscallConn()
	if err != nil { // also for a nil f
		return false
	}
	var n uint32
	_ = raw.Control(func(fd uintptr) { // fails when the file is closed
		// Fails where f is not a pipe.
		_, _, _ = peekNamedPipe.Call(fd, 0, 0, 0, uintptr(unsafe.Pointer(&n)), 0)
	})
	return n > 0
}

// OutputCodePage returns the code page in which programs write to a pipe: that of this process's console, or
// that of consoles in general, if it has none.
func OutputCodePage() int {
	if page, err := windows.GetConsoleOutputCP(); err == nil && page != 0 {
		return int(page)
	}
	page, _, _ := getOEMCP.Call() // cannot fail
	return int(page)
}

var (
	kernel32      = windows.NewLazySystemDLL("kernel32.dll")
	peekNamedPipe = kernel32.NewProc("PeekNamedPipe")
	getOEMCP      = kernel32.NewProc("GetOEMCP")
)
