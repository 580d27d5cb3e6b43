//go:build unix && !linux

package process

import (
	"context"
	"os"
	"syscall"
)

// sysProcAttr puts the child in a group of its own; the guard alone ends it when runnel dies. With a
// terminal the group is a session, whose controlling terminal is the child's stdout.
func sysProcAttr(terminal bool) *syscall.SysProcAttr {
	if terminal {
		return &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 1}
	}
	return &syscall.SysProcAttr{Setpgid: true}
}

// await waits for a child.
func await(child *os.Process) (*os.ProcessState, error) { return child.Wait() }

func SealInherited() {}

// marked finds nothing: environments are not shown.
func marked(string, int) []int { return nil }

func strays(int, string, map[int]string) map[int]string { return nil }

func onlyZombies(int) bool { return false }

// CollectOrphans does nothing: only Linux has containers.
func CollectOrphans(context.Context) {}

// widenPipe does nothing: pipes are as wide as the system makes them.
func widenPipe(*os.File, int) {}
