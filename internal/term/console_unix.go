//go:build unix

package term

import (
	"os"

	"golang.org/x/sys/unix"
)

// consoleSize returns the size of a terminal in characters, 0 if it is unknown.
func consoleSize(f *os.File) (width, height int) {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, 0
	}
	return int(size.Col), int(size.Row)
}

// takesEscapes reports whether a terminal understands escape sequences: on Unix all do.
func takesEscapes(*os.File) bool { return true }
