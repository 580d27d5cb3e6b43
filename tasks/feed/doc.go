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
//	spelling   which dialect carries the output; the dialect itself is of package partials
//	origin     what the lines of one feed have in common: task, spelling, token, request
//	gate       what all output and progress passes on its way to the writer; Silence closes it
//	mark       what a line says of its place, so that another connection can continue after it
//
// Goroutines: one per started Feed writes the output, and another sends signs of life, if its client asked
// for progress; both end with the run or Feed.Silence. Follow has one for the output while it runs. Output is
// encoded on the writer's goroutine (see package partials).
//
// Locks: Feed.mu is taken on the writer's goroutine, so nothing waits under it.
//
// Where things stand:
//
//	which dialect carries the output     Choose (spelling.go)
//	who has a feed                       a delivery of package tools, one for each request of a call (audience.go there)
//	nothing comes before the handle      Feed.Report, Feed.Status (feed.go)
//	nothing comes after the answer       Feed.Silence (feed.go)
//	a client hears that a call lives     Feed.sendHeartbeats (feed.go)
//	a mark is made, and read             mark.go
//	a lost stream is resumed             Resumer (resume.go)
//	what a version's content lacks       Content (spelling.go)
package feed
