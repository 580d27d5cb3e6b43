// Package tracker is the client's half of partial output: it puts the content that comes over the wire, in
// any dialect, into order, hands out each piece once, and fetches or reports what is missing.
//
//	notification, response ─▶ one decoder a dialect ─▶ sequence ─▶ Content
//	                                                      └─ missing ─▶ Wanted, or Gap
//
// It starts no goroutine and waits for nothing. A [Tracker] has one lock, and calls the functions of its
// Options while it holds it.
//
// The words are those of package partials. A message is what carries content: a notification, or a segment of
// a response.
//
// Where things stand:
//
//	a gap is found, and what is missing wanted   Tracker.fetch, Tracker.readOn, Tracker.skip (order.go)
//	it is fetched                                Call.fetch (package remote, task.go)
//	the answer comes, and the order continues    Tracker.Fetched, Tracker.FetchedRange (fetched.go)
package tracker
