// Package feed sends clients what happens to their calls: output, progress, changes of the status, the end.
//
//	                   Choose (spelling.go)
//	tools/call ─ Feed.Open, Start ─▶ partials.Deliver ─▶ the caller's lane
//	HTTP, after a mark ─ Resumer ─▶ Follow, of a task that runs here or elsewhere, or has ended
//	subscriptions/listen (package logs) ─▶ Follow
//
// Words:
//
//	feed       all that a client is sent about a call through one request, but for the answer
//	spelling   the dialect that carries the output
//	mark       what a line says of its place, so that another connection can continue after it
//
// Goroutines: one per started Feed writes the output, and another sends signs of life, if its client asked
// for progress; both end with the run or Feed.Silence. Follow has one for the output while it runs. Output is
// encoded on the writer's goroutine (see package partials).
//
// Locks: Feed.mu is taken on the writer's goroutine, so nothing waits under it.
package feed
