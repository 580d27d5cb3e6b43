// Package sandbox starts a child that can do less than this program. It knows nothing of tools.
//
//	Policy ─ Wrap ─▶ cmd: this program as the shim ─▶ namespaces ─▶ Landlock ─▶ seccomp ─▶ the command
//	                       ◀─ status pipe: what cannot be had, or nothing: the command runs
//
// The shim is this program under another name. It gets the policy in a file without a name, which nothing can
// replace, restricts itself and then becomes the command: all that the command starts is restricted, too, and
// nothing can undo it. What the policy asks and this system cannot give is an error: the command does not run
// then.
//
// Three layers, all of the Linux kernel:
//
//	Landlock     files that may be read and changed; signals to, and looking into, processes outside
//	seccomp      kinds of sockets, and system calls that commands do not need (ptrace, mount, bpf)
//	namespaces   a network of the child's own; all but the files that it may change is mounted read-only
//
// Where a system lets users make no namespaces, the first two do the same, but the child has no loopback
// network either, and can change the mode, the times and the owner of its user's files outside.
//
// Where things stand:
//
//	what a command may do unless its policy says else   Secrets, systemFiles (policy.go)
//	the order in which the child gives up its rights     restrict (shim_linux.go)
//	what this system can give                            Probe (probe_linux.go)
package sandbox
