package term

import (
	"os"

	"golang.org/x/sys/windows"
)

// consoleSize is the size of a terminal in characters, 0 if it does not report it.
func consoleSize(f *os.File) (width, height int) {
	var info windows.ConsoleScreenBufferInfo
	if windows.GetConsoleScreenBufferInfo(windows.Handle(f.Fd()), &info) != nil {
		return 0, 0
	}
	return int(info.Window.Right-info.Window.Left) + 1, int(info.Window.Bottom-info.Window.Top) + 1
}

// takesEscapes makes a console understand escape sequences, and reports whether it does: those before Windows 10 do not. What
// a person types comes from a console without them.
func takesEscapes(f *os.File) bool {
	var mode uint32
	h := windows.Handle(f.Fd())
	if windows.GetConsoleMode(h, &mode) != nil || f == os.Stdin {
		return true
	}
	return windows.SetConsoleMode(h, mode|windows.ENABLE_PROCESSED_OUTPUT|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}
