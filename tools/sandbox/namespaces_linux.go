//go:build amd64 || arm64

package sandbox

import (
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sharedMemory is where programs that work in several processes share memory, and ownProcesses where they are
// seen.
const (
	sharedMemory = "/dev/shm"
	ownProcesses = "/proc"
)

// mount makes all read-only but what the policy lets the command change, and puts something empty in the
// place of what it hides. Without it Landlock refuses the same files, but a command could change their modes
// and times. dir is where the command starts.
func (p *Policy) mount(to *program, dir string) error {
	to.do("mount /", unix.SYS_MOUNT, 0, to.text("/"), 0, unix.MS_REC|unix.MS_PRIVATE)
	writable, err := realPaths(p.Write)
	if err != nil {
		return err
	}
	for _, path := range writable {
		bind(to, path, path)
	}
	setReadOnly(to, "/", true)
	for _, path := range writable {
		setReadOnly(to, path, false)
	}
	kept, err := realPaths(p.Keep)
	if err != nil {
		return err
	}
	for _, path := range kept {
		bind(to, path, path)
		setReadOnly(to, path, true)
	}
	proc := to.text("proc")
	to.do("mount "+ownProcesses, unix.SYS_MOUNT, proc, to.text(ownProcesses), proc,
		unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC)
	empty := []string{sharedMemory}
	mountEmpty(to, sharedMemory, 0)
	hidden, err := realPaths(p.Hide)
	if err != nil {
		return err
	}
	for _, path := range hidden {
		if slices.ContainsFunc(empty, func(e string) bool { return within(path, e) }) {
			continue
		}
		info, err := os.Stat(path)
		switch {
		case err != nil: // as realPaths
		case info.IsDir():
			mountEmpty(to, path, unix.MS_RDONLY)
			empty = append(empty, path)
		default:
			bind(to, os.DevNull, path)
		}
	}
	// The command must not come to what lies below the new mounts through the directory it stands in.
	to.do("chdir "+dir, unix.SYS_CHDIR, to.text(dir))
	return nil
}

// bind mounts a file or a directory at a path.
func bind(to *program, from, path string) {
	to.do("mount "+path, unix.SYS_MOUNT, to.text(from), to.text(path), 0, unix.MS_BIND|unix.MS_REC)
}

// setReadOnly makes a mount read-only or not, with all below it. What this program itself may not write stays
// so.
func setReadOnly(to *program, path string, readOnly bool) {
	attr := to.numbers(unix.MOUNT_ATTR_RDONLY, 0, 0, 0)
	if !readOnly {
		attr = to.numbers(0, unix.MOUNT_ATTR_RDONLY, 0, 0)
	}
	step := to.do("mount_setattr "+path, unix.SYS_MOUNT_SETATTR, currentDir, to.text(path),
		unix.AT_RECURSIVE, attr,
		unsafe.Sizeof(unix.MountAttr{}))
	if !readOnly {
		step.Ignored = uintptr(unix.EPERM)
	}
}

// currentDir is AT_FDCWD as an argument of a system call.
const currentDir = ^uintptr(99)

// mountEmpty puts an empty directory in the place of one.
func mountEmpty(to *program, path string, flags uintptr) {
	tmpfs := to.text("tmpfs")
	to.do("mount "+path, unix.SYS_MOUNT, tmpfs, to.text(path), tmpfs, flags|unix.MS_NOSUID|unix.MS_NODEV,
		to.text("mode=1777,size=50%"))
}

// raiseLoopback starts the loopback interface of a new network, so that programs can talk to their own
// servers.
func raiseLoopback(to *program) {
	socket := to.numbers(0)
	to.do("the loopback network", unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC).
		Result = socket
	request := make([]byte, 40) // struct ifreq
	copy(request, "lo")
	request[unix.IFNAMSIZ] = unix.IFF_UP | unix.IFF_RUNNING
	to.do("the loopback network", unix.SYS_IOCTL, socket, unix.SIOCSIFFLAGS, to.bytes(request)).Indirect = 1
	to.do("the loopback network", unix.SYS_CLOSE, socket).Indirect = 1
}
