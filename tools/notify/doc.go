// Package notify tells people when a long task has ended.
//
//	Tell ─ rule of the tool: long enough, one of its ends? ─▶ notice ─▶ way: desktop ─▶ notify-send, osascript, PowerShell
//	                                                             ├────▶ way: command ─▶ the user's own
//	                                                             └────▶ way: url ─────▶ POST
//
//	rule     who is notified of which tasks: a "notify:" of the config
//	notice   what is reported about one task. It has no secrets and no control characters
//	way      one of the three; it has a queue and, while that has something, a goroutine
//
// A notice that fails is lost; the first failure is logged, and the next one only after that way has worked
// again. Only Close waits for notices, for a while.
//
// Goroutines: one for each way that has notices to send; it ends with the last of them, or before Close
// returns. Locks: Notices.mu, never held across I/O.
package notify
