//go:build unix && !linux

package process

import (
	"context"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// getTermios reads the settings of a terminal.
const getTermios = unix.TIOCGETA

// killWithThread does nothing: the guard alone ends a child when runnel dies.
func killWithThread(*syscall.SysProcAttr) {}

// await waits for a child.
func await(child *os.Process) (*os.ProcessState, error) { return child.Wait() }

// SealInherited does nothing: children inherit files that the host left open.
func SealInherited() {}

// marked finds nothing: environments are not shown.
func marked(string, int) []int { return nil }

func strays(int, string, map[int]string) map[int]string { return nil }

func onlyZombies(int) bool { return false }

// CollectOrphans does nothing: only Linux has containers.
func CollectOrphans(context.Context) {}
