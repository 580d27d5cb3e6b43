// Package tracker is the client's half of partial output: it puts what came over the wire, in any dialect, into order, hands out each piece
// once, and fetches or reports what is missing.
//
//	notification, response ─▶ one decoder a dialect ─▶ sequence ─▶ Content
//	                                                      └─ missing ─▶ Wanted, or Gap
//
// It starts no goroutine and waits for nothing: a [Tracker] has one lock, and calls the functions of its Options under it.
//
// Where things stand:
//
//	a gap is seen, and what is missing wanted   Tracker.fetch, Tracker.readOn, Tracker.skip (order.go)
//	it is fetched                               Call.fetch (package remote, task.go)
//	the answer is taken, the order goes on      Tracker.Fetched, Tracker.FetchedRange (fetched.go)
package tracker
