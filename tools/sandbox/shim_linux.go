//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"runnel/tools/sandbox/shim"

	"golang.org/x/sys/unix"
)

// order is what a shim is to do.
type order struct {
	Policy     *Policy
	Path       string
	Argv       []string
	Namespaces bool // in namespaces of its own
	Probe      bool // end where the command would start
}

// A shim that package shim has not recognised must not go on as this program.
func init() {
	if os.Args[0] == shim.Name {
		fmt.Fprintln(os.Stderr, "a shim needs /proc")
		os.Exit(shim.Failure)
	}
}

// program returns the system calls by which the shim gives up what the policy does not allow, and becomes the
// command. What comes later would no longer be possible before: mounts need rights that dropRights gives up,
// and a filter is the last. dir is where the command starts.
func (o *order) program(dir string, env []string) (*program, error) {
	p := newProgram()
	// The command gets no files but its own.
	p.do("close_range", unix.SYS_CLOSE_RANGE, shim.OrderFile, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	if o.Namespaces {
		if err := o.Policy.mount(p, dir); err != nil {
			return nil, fmt.Errorf("namespaces: %w", err)
		}
		if !o.Policy.Network {
			raiseLoopback(p)
			if o.Policy.Proxied {
				handListener(p)
			}
		}
	}
	o.Policy.Limits.set(p)
	dropRights(p, o.Namespaces)
	o.Policy.restrictFiles(p, o.Namespaces)
	// The shim was started with this signal, which a change of rights may have taken away.
	p.do("prctl", unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL))
	if err := o.Policy.seccomp(p, o.Namespaces); err != nil {
		return nil, err
	}
	if o.Namespaces {
		p.do("fork", shim.Fork)
	}
	if o.Probe {
		p.do("exit", unix.SYS_EXIT_GROUP, 0)
	}
	p.do(o.Path, unix.SYS_EXECVE, p.text(o.Path), p.list(o.Argv), p.list(env))
	return p, nil
}

// Shim is a command on its way into its sandbox, and in it.
type Shim struct {
	program *program
	file    *os.File // of the program, where the shim writes how it went
	ruleset *os.File
	status  *os.File // ends when the command runs, or will not
	theirs  *os.File

	listening      func(net.Listener) // gets the proxy's listener; nil = there is none
	listener, hand *os.File           // what it comes from, and the shim's end of that
}

// Wrap makes cmd run in a sandbox. Started must be called after cmd has started, or has failed to, and Ended
// after it was waited for. It fails if this system cannot give what the policy asks. program is this
// program's file.
func (p *Policy) Wrap(cmd *exec.Cmd, program string) (*Shim, error) {
	kernel := Probe(program)
	if err := p.lacks(&kernel); err != nil {
		return nil, err
	}
	return (&order{Policy: p, Path: cmd.Path, Argv: cmd.Args, Namespaces: kernel.Namespaces == nil}).
		wrap(cmd, program)
}

// wrap is Wrap with an order.
func (o *order) wrap(cmd *exec.Cmd, program string) (s *Shim, err error) {
	s = &Shim{}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	dir := cmd.Dir
	if dir == "" {
		if dir, err = os.Getwd(); err != nil {
			return nil, err
		}
	}
	env := cmd.Environ()
	if s.program, err = o.program(dir, env); err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	if s.file, err = s.program.file(); err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	if s.ruleset, err = o.Policy.ruleset(); err != nil {
		return nil, fmt.Errorf("sandbox: %w", err)
	}
	if s.status, s.theirs, err = os.Pipe(); err != nil {
		return nil, err
	}
	cmd.Path = program
	cmd.Args = []string{shim.Name}
	// These variables are for the shim alone, which is a program of Go.
	cmd.Env = append(slices.Clip(env), "GOMAXPROCS=1", "GODEBUG=")
	cmd.ExtraFiles = []*os.File{s.file, s.theirs, s.ruleset}
	if o.Policy.Proxied {
		if s.listener, s.hand, err = listenerPair(); err != nil {
			return nil, err
		}
		s.listening = o.Policy.Listening
		cmd.ExtraFiles = append(cmd.ExtraFiles, s.hand)
	}
	if o.Namespaces {
		enterNamespaces(cmd.SysProcAttr, !o.Policy.Network)
	}
	return s, nil
}

// startTime is how long a command may take to start in its sandbox: a busy machine takes a second or two.
const startTime = time.Minute

// Started returns when the command runs in its sandbox, and nil then. err is that of the start.
func (s *Shim) Started(err error) error {
	for _, f := range []*os.File{s.theirs, s.ruleset, s.hand} {
		_ = f.Close() // nil is fine
	}
	var o shim.Order
	if err == nil {
		_ = s.status.SetReadDeadline(time.Now().Add(startTime))
		_, err = s.status.Read(make([]byte, 1)) // until the command starts
		if errors.Is(err, io.EOF) {
			o, err = outcome(s.file)
		} else if errors.Is(err, os.ErrDeadlineExceeded) {
			err = fmt.Errorf("sandbox: the command has not started within %v", startTime)
		}
	}
	_ = s.status.Close()
	if err == nil {
		if err = s.program.failure(&o); err != nil {
			err = fmt.Errorf("sandbox: %w", err)
		}
	}
	if err == nil && s.listening != nil {
		var listener net.Listener
		if listener, err = receiveListener(s.listener); err == nil {
			s.listening(listener)
		}
	}
	if err != nil {
		s.Close()
	}
	return err
}

// Ended returns how the command has ended. state is that of the shim, which has no signal in namespaces: its
// first process ends by none.
func (s *Shim) Ended(state *os.ProcessState) syscall.WaitStatus {
	o, err := outcome(s.file)
	s.Close()
	if err == nil && o.Ended == 1 {
		return syscall.WaitStatus(o.Status)
	}
	return state.Sys().(syscall.WaitStatus)
}

// Close gives up the shim: how the command ends is not asked then.
func (s *Shim) Close() {
	for _, f := range []*os.File{s.file, s.ruleset, s.status, s.theirs, s.listener, s.hand} {
		_ = f.Close() // nil is fine
	}
}

// enterNamespaces has a child start in a user namespace, where it is its user, and in namespaces of mounts,
// of processes, of their communication and, with network, of the network.
func enterNamespaces(attr *syscall.SysProcAttr, network bool) {
	attr.Cloneflags |= syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC
	if network {
		attr.Cloneflags |= syscall.CLONE_NEWNET
	}
	// The shim needs these rights there. A program of an ordinary user loses them when it starts.
	attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP}
	uid, gid := os.Geteuid(), os.Getegid()
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
}

// set sets the limits of the shim, which its children inherit.
func (l *Limits) set(p *program) {
	for _, limit := range []struct {
		name     string
		resource uintptr
		value    uint64
	}{
		{"memory", unix.RLIMIT_DATA, l.Memory},
		{"processes", unix.RLIMIT_NPROC, l.Processes},
		{"cpu", unix.RLIMIT_CPU, uint64((l.CPU + 1e9 - 1) / 1e9)},
		{"files", unix.RLIMIT_NOFILE, l.Files},
		{"fileSize", unix.RLIMIT_FSIZE, l.FileSize},
	} {
		if limit.value > 0 {
			p.do("limits."+limit.name, unix.SYS_PRLIMIT64, 0, limit.resource,
				p.numbers(limit.value, limit.value))
		}
	}
}

// fileRights are what a command of root keeps of its rights: those over files, which Landlock bounds.
var fileRights = []uintptr{unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_FSETID}

// dropRights takes the rights that the shim itself has in its namespaces, and the other rights of root, from
// the shim and all programs that the command runs: with no_new_privs a program has none that the shim has
// not.
func dropRights(p *program, namespaces bool) {
	p.do("capabilities", unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL)
	var kept uint64
	for right := uintptr(0); ; right++ {
		has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, right, 0, 0, 0)
		switch {
		case err != nil: // there are no more
			header := p.numbers(unix.LINUX_CAPABILITY_VERSION_3) // and 0, this process
			p.do("capabilities", unix.SYS_CAPSET, header, p.numbers(kept|kept<<32, 0, 0))
			return
		case !slices.Contains(fileRights, right):
			p.do("capabilities", unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, right).Ignored = uintptr(unix.EPERM)
		case os.Geteuid() == 0 && (namespaces || has == 1):
			kept |= 1 << right
		}
	}
}
