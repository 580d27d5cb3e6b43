// Package tracker is the client's half of partial output: it puts what came over the wire, in whichever dialect, in order, hands each
// piece out once, and fetches or reports what is missing.
//
//	notification, response ─▶ one decoder a dialect ─▶ sequence ─▶ Content
//	                                                      └─ missing ─▶ Fetch, FetchRange, or Gap
//
// It starts no goroutine and waits for nothing: a [Tracker] has one lock, and calls what it was given under it.
package tracker
