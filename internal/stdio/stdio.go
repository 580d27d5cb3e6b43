// Package stdio has what a command needs to know of the pipes that its host has given it: whether the runtime
// polls them, whether two are the same, and whether anything reads stderr. Each function has its Unix half in
// stdio_unix.go and its Windows half in stdio_windows.go.
package stdio

import "os"

// pipe reports whether a file is a pipe or a socket.
func pipe(f *os.File) (info os.FileInfo, ok bool) {
	info, err := f.Stat()
	return info, err == nil && info.Mode()&(os.ModeNamedPipe|os.ModeSocket) != 0
}
