//go:build amd64 || arm64

package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// shimName is the argv[0] that makes this program a shim.
const shimName = "runnel-sandbox"

// Files of a shim: the order, and the pipe for what goes wrong, which the command's start closes.
const orderFile, statusFile = 3, 4

// order is what a shim is told.
type order struct {
	Policy     *Policy
	Path       string
	Argv       []string
	Namespaces bool // the shim was started in namespaces of its own
	Probe      bool // end where the command would start
}

// This is in init, since every binary that can start a command must be able to be its shim.
func init() {
	if os.Args[0] != shimName {
		return
	}
	runtime.LockOSThread() // the thread that is restricted becomes the command
	status := os.NewFile(statusFile, "status")
	if err := obey(); err != nil {
		_, _ = io.WriteString(status, err.Error())
		os.Exit(exitShim)
	}
	os.Exit(0)
}

// exitShim is the exit code of a shim that could not start the command.
const exitShim = 126

// obey reads the order and becomes the command.
func obey() error {
	in := os.NewFile(orderFile, "order")
	text, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	_ = in.Close()
	var o order
	if err := json.Unmarshal(text, &o); err != nil {
		return err
	}
	if err := o.restrict(); err != nil {
		return err
	}
	if o.Probe {
		return nil
	}
	err = syscall.Exec(o.Path, o.Argv, os.Environ())
	return fmt.Errorf("%s: %w", o.Path, err)
}

// restrict gives up what the policy does not allow. What comes later would no longer be possible before:
// mounts need rights that dropRights gives up, and Landlock opens files.
func (o *order) restrict() error {
	// The command gets no files but its own.
	if err := unix.CloseRange(orderFile, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("close_range: %w", err)
	}
	if o.Namespaces {
		if err := o.Policy.mount(); err != nil {
			return fmt.Errorf("namespaces: %w", err)
		}
		if !o.Policy.Network {
			if err := raiseLoopback(); err != nil {
				return fmt.Errorf("the loopback network: %w", err)
			}
		}
	}
	if err := o.Policy.Limits.set(); err != nil {
		return err
	}
	if err := dropRights(); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	if err := o.Policy.landlock(o.Namespaces); err != nil {
		return err
	}
	// The shim was started with this signal, which a change of rights may have taken away.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0, 0, 0); err != nil {
		return err
	}
	return o.Policy.seccomp(o.Namespaces)
}

// Wrap makes cmd run in a sandbox, and Started must be called after cmd has started, or has failed to. It
// fails if this system cannot give what the policy asks. program is this program's file.
func (p *Policy) Wrap(cmd *exec.Cmd, program string) (started func(error) error, err error) {
	kernel := Probe(program)
	if err := p.lacks(&kernel); err != nil {
		return nil, err
	}
	o := &order{Policy: p, Path: cmd.Path, Argv: cmd.Args, Namespaces: kernel.Namespaces == nil}
	return p.wrap(cmd, program, o)
}

// wrap is Wrap with an order.
func (p *Policy) wrap(cmd *exec.Cmd, program string, o *order) (started func(error) error, err error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	orders, err := tempFile(text)
	if err != nil {
		return nil, err
	}
	status, theirs, err := os.Pipe()
	if err != nil {
		_ = orders.Close()
		return nil, err
	}
	cmd.Path = program
	cmd.Args = []string{shimName}
	cmd.ExtraFiles = []*os.File{orders, theirs}
	if o.Namespaces {
		enterNamespaces(cmd.SysProcAttr, !p.Network)
	}
	return func(err error) error {
		_ = orders.Close()
		_ = theirs.Close()
		defer status.Close()
		if err != nil {
			return err
		}
		said, err := io.ReadAll(io.LimitReader(status, 4<<10)) // until the command starts
		if err == nil && len(said) > 0 {
			err = errors.New("sandbox: " + string(said))
		}
		return err
	}, nil
}

// tempFile returns a file without a name that holds a text, to be read from its beginning.
func tempFile(text []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("order", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	f := os.NewFile(uintptr(fd), "order")
	if _, err = f.Write(text); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// enterNamespaces has a child start in a user namespace, where it is its user, and in a mount namespace; with
// network in a network namespace, too.
func enterNamespaces(attr *syscall.SysProcAttr, network bool) {
	attr.Cloneflags |= syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS
	if network {
		attr.Cloneflags |= syscall.CLONE_NEWNET
	}
	// The shim needs these rights there. A program of an ordinary user loses them when it starts.
	attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP}
	uid, gid := os.Geteuid(), os.Getegid()
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
}

// set sets the limits of this process, which its children inherit.
func (l *Limits) set() error {
	for _, limit := range []struct {
		name     string
		resource int
		value    uint64
	}{
		{"memory", unix.RLIMIT_DATA, l.Memory},
		{"processes", unix.RLIMIT_NPROC, l.Processes},
		{"cpu", unix.RLIMIT_CPU, uint64((l.CPU + 1e9 - 1) / 1e9)},
		{"files", unix.RLIMIT_NOFILE, l.Files},
		{"fileSize", unix.RLIMIT_FSIZE, l.FileSize},
	} {
		if limit.value == 0 {
			continue
		}
		if err := syscall.Setrlimit(limit.resource, &syscall.Rlimit{Cur: limit.value, Max: limit.value}); err != nil {
			return fmt.Errorf("limits.%s: %w", limit.name, err)
		}
	}
	return nil
}

// fileRights are what a command of root keeps of its rights: those over files, which Landlock bounds.
var fileRights = []uintptr{unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID}

// dropRights takes the rights that the shim itself has in its namespaces, and the other rights of root, from
// all programs that the command runs.
func dropRights() error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var rights [2]unix.CapUserData
	if err := unix.Capget(&header, &rights[0]); err != nil {
		return err
	}
	rights[0].Inheritable = 0
	rights[1].Inheritable = 0
	if err := unix.Capset(&header, &rights[0]); err != nil {
		return err
	}
	for right := uintptr(0); ; right++ {
		has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, right, 0, 0, 0)
		if err != nil {
			return nil // there are no more
		}
		keep := false
		for _, file := range fileRights {
			keep = keep || right == file
		}
		if has == 1 && !keep {
			err := unix.Prctl(unix.PR_CAPBSET_DROP, right, 0, 0, 0)
			if errors.Is(err, unix.EPERM) {
				return nil // this is not root, whose programs have none
			}
			if err != nil {
				return err
			}
		}
	}
}
