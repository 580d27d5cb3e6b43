// Package logs serves what tasks write as resources (2025-11-25 server/resources), and subscriptions/listen (2026-07-28
// basic/patterns/subscriptions), which announces changes of tasks, their logs and lists.
//
//	resources/list, read ─▶ server ─▶ runner.Head ─▶ a page of the log; another server's: Others
//	resources/subscribe ─▶ logWatch ─▶ notifications/resources/updated
//	subscriptions/listen ─▶ subscription ─▶ one feed for each list, resource and task ─▶ its lane
//
// Goroutines: one for each log of resources/subscribe, until its task has ended. For each subscriptions/listen one for each list, resource
// and task that it asks for, one more for the output of a task, and one that waits for the tasks; they end with the request.
//
// Where things stand:
//
//	a page of a log                   server.readResource, AppendText (resources.go)
//	a change is told                  server.watchLog (subscribe.go), subscription.follow (listen.go)
//	what a subscription may hear of   subscription.watchAll (listen.go)
//	a resource is not there           NotFound (uri.go)
package logs
