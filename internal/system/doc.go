// Package system does what Unix and Windows do in different ways with files, pipes and this process, and knows nothing of runnel. Each
// function has its Unix half in a file *_unix.go and its Windows half in *_windows.go, with the same words on top; children and their
// groups are in tools/process. NearestDir (dir.go) is the same on both.
//
//	rooms ─▶ system ─▶ golang.org/x/sys/unix
//	                └▶ golang.org/x/sys/windows
//
// Goroutines: none. Locks: none; [Lock] locks a file for a process.
//
//	stranger    another user, without the rights of an administrator
//	console     what a terminal is on Windows
//
// Where things stand:
//
//	a pipe whose reader has deadlines             Pipe (pipe)
//	who may change or read a file                 IsForeign, WritableByOthers, ReadableByOthers (owner)
//	a file that a process holds                   Lock, OpenLockable (lock)
//	a file that must not be waited for            NoWait, NoFollow (file)
//	signals that are errors instead               KeepWriteErrors, KillSelf (signal)
package system
