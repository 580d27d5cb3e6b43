// Package logs serves the output of tasks as resources (2025-11-25 server/resources), and
// subscriptions/listen (2026-07-28 basic/patterns/subscriptions), which announces changes of tasks, of their
// logs and of lists.
//
//	resources/list, read ─▶ server ─▶ Runner.Head ─▶ a page of the log; another server's: Others
//	resources/subscribe ─▶ logWatch ─▶ notifications/resources/updated
//	subscriptions/listen ─▶ subscription ─▶ one feed for each list, resource and task ─▶ its lane
//
// Goroutines: for resources/subscribe one for each log, until its task has ended. For each
// subscriptions/listen one for each list, resource and task that it asks for, one more for the output of each
// task, and one that waits for the tasks; they end with the request.
//
// Where things stand:
//
//	a page of a log                   server.readResource, AppendText (resources.go)
//	a change is announced             server.watchLog (subscribe.go), subscription.follow (listen.go)
//	what a subscription announces     subscription.watchAll (listen.go)
//	a resource does not exist         NotFound (serve.go)
package logs
