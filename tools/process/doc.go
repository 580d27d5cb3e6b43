// Package process runs a child of this program, and makes sure that nothing of it is left in the end. It
// knows nothing of tools.
//
//	Spec ─ Start ─▶ forker (one thread for all) ─▶ child ─┐
//	                guard (a second process) ◀─ its group  │ pipes
//	Run ◀─ watch: exit, cancel, timeout, silence           ├─▶ pump ─▶ stdout, stderr (io.Writer)
//	 └─▶ family: TERM, grace, KILL, then strays            ┘
//
// Goroutines: one forks for all children, on a thread of its own, while there are any; per child one waits
// for it, one reads each output pipe, one writes stdin, and one counts it when it was stopped and is not
// gone; one waits for the guard and replaces it, one for what [Fork] started. [CollectOrphans] has one.
//
// Locks: guard.mu before forker.mu.
//
//	child    the process that Start made, and the leader of its group
//	family   the child, its group, and who has left that: strays
//	mark     a variable in the environment of a family, by which strays are found
//	guard    a second process of this program that kills families when this one is gone
//
// Where things stand:
//
//	a child has run for too long, or said nothing   Child.watch (child.go), patience (patience.go)
//	which variables a child gets                    Environ (program.go)
//	a child is killed, to the last grandchild       Child.stop (child.go), family.end (family.go), family.signal (family_unix.go, family_windows.go)
//	who has left the group is found                 strays (system_linux.go)
//	this program was killed                         keepGuard (guard.go)
package process
