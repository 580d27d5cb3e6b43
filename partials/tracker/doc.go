// Package tracker is the client's half of partial output: it puts what came over the wire, in whichever dialect, in order, hands each
// piece out once, and fetches or reports what is missing.
//
//	notification, response ─▶ one decoder a dialect ─▶ sequence ─▶ Content
//	                                                      └─ missing ─▶ Fetch, FetchRange, or Gap
//
// It starts no goroutine and waits for nothing: a [Tracker] has one lock, and calls what it was given under it.
//
// Where things stand:
//
//	a gap is seen, and what is missing asked for   Tracker.fetch, Tracker.readOn, Tracker.skip (order.go)
//	the answer is taken, the order goes on         Tracker.Fetched, Tracker.FetchedRange (fetched.go)
//	the requests for it are sent                   Call.resume, Call.resumeRange (package remote, task.go)
package tracker
