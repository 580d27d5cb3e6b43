package upstream

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"runnel/internal/processtest"
	"runnel/tools/config"
)

// A process that a server starts ends with the server, though it has left its group.
func TestStrayEndsWithItsServer(t *testing.T) {
	line := processtest.NewLifeline(t)
	ready := filepath.Join(t.TempDir(), "ready")
	b := newBehind(t, fake(t, "fake", func(u *config.Upstream) {
		u.Env["LINE"] = line.Path
		u.Env["READY"] = ready
		u.Env["PROGRAM"] = u.Command[0]
		u.Command = []string{"sh", "-c",
			`mkfifo "$READY"; setsid -f sh -c 'exec 9>"$LINE"; exec >"$READY" 2>&1; sleep 600'; : < "$READY"; exec "$PROGRAM" pid`}
	}))
	b.mustCall("pid")
	line.IsHeld()
	b.Close()
	line.Gone()
}

// Where runnel is the first process of a container, what a server leaves behind becomes its child: it is
// collected.
func TestNoZombieIsLeft(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Skip(err)
	}
	defer func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) }()
	left := filepath.Join(t.TempDir(), "left")
	b := newBehind(t, fake(t, "fake", func(u *config.Upstream) {
		u.Env["LEFT"], u.Env["PROGRAM"] = left, u.Command[0]
		u.Command = []string{"sh", "-c", `sleep 600 >&2 & echo $! > "$LEFT"; exec "$PROGRAM" pid`}
	}))
	b.mustCall("pid")
	b.Close()
	text, _ := os.ReadFile(left)
	pid := 0
	if _, err := fmt.Sscan(string(text), &pid); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d is there still: %v", pid, err)
	}
}
