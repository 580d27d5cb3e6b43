package serve

import "os"

// pipe describes a file that is a pipe or socket.
func pipe(f *os.File) (info os.FileInfo, ok bool) {
	info, err := f.Stat()
	return info, err == nil && info.Mode()&(os.ModeNamedPipe|os.ModeSocket) != 0
}
