// Package shim is what this program does when it was started as a shim: it makes the system calls that the
// one that started it has written down, the last of which starts a command.
//
//	sandbox ─ memory file: Order, data, Steps ─▶ init ─ run ─▶ execve
//	        ◀─ the same memory: what has failed, how the command ended
//
// It has to be early and small, since every command in a sandbox waits for it. Go initialises a package as
// soon as all that it imports is, in the order of import paths; a package that imports nothing comes before
// os and some 400 others, which take some milliseconds. So all that needs thought (which paths are there,
// which of them may be read) is thought before, in package sandbox, and here is only a loop.
//
// In a namespace of processes the shim stays, as its first process: the kernel gives it all that have lost
// their parents, and kills all that is left when it ends, which it does with the command.
package shim
