// Package fallback has the tools by which a model uses tasks through a host that has none: start_task,
// get_task_result, list_tasks, send_to_task and cancel_task. Package tools lists them for such hosts, and is
// their [Host].
//
//	a model ─▶ tools/call ─▶ Tool.Call ─▶ Runner: start, follow, type, cancel
//	        ◀─ the answer ◀─ Reader of package reading ◀─ log and result of the task
//
// Goroutines and locks: none. A call waits in the goroutine that runs it, 45 s at most.
//
// Where things stand:
//
//	what the tools are called, and take     Tools.All (tools.go)
//	how long a call waits                   Params.wait (result.go), sendWait (send.go)
//	what an answer shows                    package reading
//	what was typed has been answered        reading.Settle
package fallback
