package term

import (
	"os"

	"golang.org/x/sys/windows"
)

// consoleSize returns the size of a terminal in characters, 0 if it is unknown.
func consoleSize(f *os.File) (width, height int) {
	var info windows.ConsoleScreenBufferInfo
	if windows.GetConsoleScreenBufferInfo(windows.Handle(f.Fd()), &info) != nil {
		return 0, 0
	}
	return int(info.Window.Right-info.Window.Left) + 1, int(info.Window.Bottom-info.Window.Top) + 1
}

// takesEscapes makes a console understand escape sequences, and reports whether it does: consoles before
// Windows 10 do not. Stdin stays as it is.
func takesEscapes(f *os.File) bool {
	var mode uint32
	h := windows.Handle(f.Fd())
	if windows.GetConsoleMode(h, &mode) != nil || f == os.Stdin {
		return true
	}
	return windows.SetConsoleMode(h,
		mode|windows.ENABLE_PROCESSED_OUTPUT|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}
