// Package system hides differences between Unix and Windows in files, pipes and this process. It knows
// nothing about runnel. Each function has its Unix half in a file *_unix.go and its Windows half in
// *_windows.go, with the same comment; children and their
// groups are in tools/process. NearestDir (read.go) is the same on both.
//
//	rooms ─▶ system ─▶ golang.org/x/sys/unix
//	                └▶ golang.org/x/sys/windows
//
// Goroutines: none. Locks: none; [Lock] locks a file for a process.
//
//	stranger    another user, without the rights of an administrator
//	console     a terminal on Windows
//
// Where things stand:
//
//	a pipe whose reader has deadlines             Pipe (pipe)
//	who may change or read a file                 IsForeign, WritableByOthers, ReadableByOthers (owner)
//	a file that a process holds                   Lock, OpenLockable (lock)
//	opening a file must not block                 NoWait, NoFollow (file)
//	signals become errors of write, or a cause    KeepWriteErrors, KillSelf, SignalError (signal)
package system
