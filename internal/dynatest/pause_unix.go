//go:build unix

package dynatest

import (
	"errors"
	"syscall"
	"testing"
)

// Pause stops the server, and returns when all of its threads have stopped: it still accepts connections, but
// answers nothing.
func (s *Server) Pause(t testing.TB) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var status syscall.WaitStatus
	for !status.Stopped() {
		if _, err := syscall.Wait4(s.cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil &&
			!errors.Is(err, syscall.EINTR) {
			t.Fatal(err)
		}
		if status.Exited() || status.Signaled() {
			t.Fatal("the server has ended")
		}
	}
}

// Resume ends a Pause.
func (s *Server) Resume(t testing.TB) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}
