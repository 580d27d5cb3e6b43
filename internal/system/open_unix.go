//go:build unix

package system

import (
	"os/exec"
	"runtime"
	"syscall"
)

// OpenURL shows a URL in the user's browser. The browser gets a separate session, so that Ctrl-C in this
// terminal does not reach it.
func OpenURL(url string, env []string) error {
	program := "xdg-open"
	if runtime.GOOS == "darwin" {
		program = "open"
	}
	cmd := exec.Command(program, url)
	cmd.Env, cmd.SysProcAttr = env, &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() { _ = cmd.Wait() }() // only to collect it; some programs stay as long as the browser
	return nil
}
