//go:build unix

package system

import (
	"os/exec"
	"runtime"
	"syscall"
)

// OpenURL shows a URL in the user's browser. The browser has a session of its own: Ctrl-C in this terminal is not for it.
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
	go func() { _ = cmd.Wait() }() // it is not needed any more; some stay as long as the browser does
	return nil
}
