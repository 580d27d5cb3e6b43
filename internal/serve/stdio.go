package serve

import "os"

// pipe reports whether a file is a pipe or a socket.
func pipe(f *os.File) (info os.FileInfo, ok bool) {
	info, err := f.Stat()
	return info, err == nil && info.Mode()&(os.ModeNamedPipe|os.ModeSocket) != 0
}
