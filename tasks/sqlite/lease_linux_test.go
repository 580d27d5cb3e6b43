package sqlite

import (
	"fmt"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"runnel/tasks/statetest"
)

// A process that stands still for long while its lease's file is missing has not ended: it makes the file
// again when it goes on.
func TestAbsentProcessStandsStill(t *testing.T) {
	child := exec.Command("sleep", "1000")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = child.Process.Kill() }()
	if err := child.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	name := func(pid int, began string) string {
		return fmt.Sprintf("%s_%d_%s", uuid.NewString(),
			pid, began)
	}
	own, err := takeLease(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer own.release(false)
	stopped, other := name(child.Process.Pid, began(child.Process.Pid)), name(child.Process.Pid, "1")
	var a absences
	now := time.Now()
	look := func(want map[string]bool) {
		t.Helper()
		for range 4 { // longer than absentFor
			now = now.Add(absentFor / 2)
			for lease := range want {
				a.see(lease, missing, now)
			}
		}
		for lease, gone := range want {
			if a.see(lease, missing, now) != gone {
				t.Errorf("%s: gone is not %v", lease, gone)
			}
		}
	}
	look(map[string]bool{stopped: false, own.name: false, other: true, uuid.NewString(): true,
		name(1<<30, "5"): true, name(child.Process.Pid, ""): true})
	_ = child.Process.Kill()
	statetest.Eventually(t, func() bool { return began(child.Process.Pid) == "" }) // it is a zombie
	look(map[string]bool{stopped: true})
	_ = child.Wait()
	look(map[string]bool{stopped: true})
}
