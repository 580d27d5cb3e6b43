//go:build amd64 || arm64

package sandbox

import (
	"encoding/binary"
	"fmt"
	"syscall"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// refused are system calls that reach outside of a process, or a large part of the kernel, and that commands
// do not need.
var refused = []uint32{
	// other processes
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PROCESS_MADVISE,
	unix.SYS_KCMP, unix.SYS_PIDFD_GETFD,
	// what the kernel runs or keeps
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_KEYCTL, unix.SYS_ADD_KEY,
	unix.SYS_REQUEST_KEY,
	unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE,
	unix.SYS_DELETE_MODULE, unix.SYS_SYSLOG,
	// files by other ways than their paths, and mounts
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_FSOPEN,
	unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK,
	unix.SYS_MOUNT_SETATTR, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_UNSHARE, unix.SYS_SETNS,
	unix.SYS_NAME_TO_HANDLE_AT,
	unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_FANOTIFY_INIT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD,
	// the machine
	unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_SETTIMEOFDAY,
	unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME,
	unix.SYS_ADJTIMEX, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME,
}

// missing are system calls that programs do without where a kernel does not have them. io_uring opens sockets
// that no filter sees, and clone3 has its flags in memory, which no filter reads: its callers then use clone.
var missing = []uint32{unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_CLONE3}

// Offsets in what a filter sees (struct seccomp_data), and the lower half of the first argument: the kernel
// takes no more of it, so a filter that compared all of it could be passed by.
const (
	numberOffset = 0
	archOffset   = 4
	argOffset    = 16
)

// filter returns the program that decides which system calls may be made. Those of another architecture, such
// as of 32 bits, have other numbers, and are refused.
func (p *Policy) filter(ownNetwork bool) []bpf.Instruction {
	var kinds []uint32
	if p.Network || ownNetwork {
		kinds = append(kinds, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK)
	}
	if p.Sockets {
		kinds = append(kinds, unix.AF_UNIX)
	}
	refuse := func(errno syscall.Errno) bpf.Instruction {
		return bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(errno)}
	}
	allow := bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}
	program := []bpf.Instruction{
		bpf.LoadAbsolute{Off: archOffset, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: nativeArch, SkipTrue: 1},
		refuse(syscall.ENOSYS),
		bpf.LoadAbsolute{Off: numberOffset, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpLessThan, Val: x32Bit, SkipTrue: 1},
		refuse(syscall.ENOSYS),
	}
	// on answers one system call; the rest of the program sees the others.
	on := func(number uint32, answer ...bpf.Instruction) {
		program = append(program, bpf.JumpIf{Cond: bpf.JumpEqual, Val: number, SkipFalse: uint8(len(answer))})
		program = append(program, answer...)
	}
	for _, number := range refused {
		on(number, refuse(syscall.EPERM))
	}
	for _, number := range missing {
		on(number, refuse(syscall.ENOSYS))
	}
	socket := []bpf.Instruction{bpf.LoadAbsolute{Off: argOffset, Size: 4}}
	for _, kind := range kinds {
		socket = append(socket, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: kind, SkipTrue: 1}, allow)
	}
	on(unix.SYS_SOCKET, append(socket, refuse(syscall.EPERM))...)
	on(unix.SYS_CLONE,
		bpf.LoadAbsolute{Off: argOffset, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: unix.CLONE_NEWUSER, SkipTrue: 1},
		refuse(syscall.EPERM),
		allow)
	return append(program, allow)
}

// seccomp installs the filter.
func (p *Policy) seccomp(to *program, ownNetwork bool) error {
	filter, err := bpf.Assemble(p.filter(ownNetwork))
	if err != nil {
		return fmt.Errorf("seccomp: %w", err)
	}
	var code []byte // struct sock_filter
	for _, f := range filter {
		code = binary.NativeEndian.AppendUint16(code, f.Op)
		code = append(code, f.Jt, f.Jf)
		code = binary.NativeEndian.AppendUint32(code, f.K)
	}
	to.do("seccomp", unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0,
		to.numbers(uint64(len(filter)), uint64(to.bytes(code))))
	return nil
}
