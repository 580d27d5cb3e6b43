// Package sandbox starts a child that can do less than this program. It knows nothing of tools.
//
//	Policy ─ Wrap ─▶ program: system calls ─▶ cmd: this program as the shim ─▶ namespaces ─▶ Landlock ─▶ seccomp ─▶ the command
//	                       ◀─ status pipe: it has started, or what cannot be had; how it ended
//
// The shim is this program under another name (package shim). It gets system calls in a file without a name,
// which nothing can replace, makes them one after another, and the last makes it the command: all that the
// command starts is restricted, too, and nothing can undo it. What the policy asks and this system cannot
// give is an error: the command does not run then. In namespaces the shim stays, as the first of the
// command's processes; when it ends or is killed, the kernel kills the others.
//
// Three layers, all of the Linux kernel:
//
//	Landlock     files that may be read and changed; signals to, and looking into, processes outside
//	seccomp      kinds of sockets, and system calls that commands do not need (ptrace, mount, bpf)
//	namespaces   a network and processes of the child's own; all but the files that it may change is mounted
//	             read-only
//
// Where a system lets users make no namespaces, the first two do the same, but the child has no loopback
// network either, sees the names of other processes, and can change the mode, the times and the owner of its
// user's files outside.
//
// On macOS its own sandbox-exec starts the command, with the policy as a profile. On other systems there is
// none, which is an error.
//
// Where things stand:
//
//	what a command may do unless its policy says else   Secrets, systemFiles (policy.go)
//	the order in which the child gives up its rights     order.program (shim_linux.go)
//	how a system call is written down                    program (program_linux.go)
//	a network of some hosts: the proxy's listener        handListener (listener_linux.go); package proxy serves it
//	what a command was refused                           Policy.Denied (denial_linux.go)
//	the policy as macOS takes it                         Policy.profile (profile.go)
//	what this system can give                            Probe (probe_linux.go)
package sandbox
