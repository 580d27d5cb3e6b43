// Package files keeps the files that a task has made, in whatever state keeps the task.
//
//	tools/artifacts ─ Writer ─▶ base64 ─▶ the log of the task FilesID(id) ─▶ tasks.Store
//	tasks/logs, rpc/http's download, the view ◀─ Set, Reader ◀── the same log
//
// A state knows tasks with logs, and that is all it needs here: the files of a task are the log of a second
// task, with the same owner and ttl, whose outcome lists them. So files are stored in pieces, count against
// the bounds of the state, expire, and can be read from any position in every state, without a line of code
// in any of them except that deleting a task deletes its files. A log holds text, so the bytes are in base64,
// which is also how a client gets them: it costs a third more room.
//
// It starts no goroutine, and has no lock: a Writer has one user at a time.
package files
