//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// sharedMemory is where programs that work in several processes share memory.
const sharedMemory = "/dev/shm"

// mount makes all read-only but what the policy lets the command change, and puts something empty in the
// place of what it hides. Without it Landlock refuses the same files, but a command could change their modes
// and times.
func (p *Policy) mount() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	writable, err := realPaths(p.Write)
	if err != nil {
		return err
	}
	for _, path := range writable {
		if err := bind(path, path); err != nil {
			return err
		}
	}
	if err := setReadOnly("/", true); err != nil {
		return err
	}
	for _, path := range writable {
		if err := setReadOnly(path, false); err != nil {
			return err
		}
	}
	kept, err := realPaths(p.Keep)
	if err != nil {
		return err
	}
	for _, path := range kept {
		if err := bind(path, path); err != nil {
			return err
		}
		if err := setReadOnly(path, true); err != nil {
			return err
		}
	}
	if err := empty(sharedMemory, 0); err != nil {
		return err
	}
	hidden, err := realPaths(p.Hide)
	if err != nil {
		return err
	}
	for _, path := range hidden {
		if err := empty(path, unix.MS_RDONLY); err != nil {
			return err
		}
	}
	// The command must not come to what lies below the new mounts through the directory it stands in.
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	return os.Chdir(dir)
}

// bind mounts a file or a directory at a path.
func bind(from, to string) error {
	if err := unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("mount %s: %w", to, err)
	}
	return nil
}

// setReadOnly makes a mount read-only or not, with all below it. What this program itself may not write stays
// so.
func setReadOnly(path string, readOnly bool) error {
	attr := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if !readOnly {
		attr = &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}
	}
	err := unix.MountSetattr(unix.AT_FDCWD, path, unix.AT_RECURSIVE, attr)
	if !readOnly && errors.Is(err, unix.EPERM) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("mount_setattr %s: %w", path, err)
	}
	return nil
}

// empty puts an empty directory or an empty file in the place of one, if that is there.
func empty(path string, flags uintptr) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission):
		return nil
	case err != nil:
		return err
	case !info.IsDir():
		return bind(os.DevNull, path)
	}
	if err := unix.Mount("tmpfs", path, "tmpfs", flags|unix.MS_NOSUID|unix.MS_NODEV, "mode=1777,size=50%"); err != nil {
		return fmt.Errorf("mount %s: %w", filepath.Clean(path), err)
	}
	return nil
}

// raiseLoopback starts the loopback interface of a new network, so that programs can talk to their own
// servers.
func raiseLoopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
}
