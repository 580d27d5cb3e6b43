// Package view is the server's half of the live view: the page (package page) as a resource, and the tools that it lives on. The page has two doors, and speaks MCP
// through both: as an MCP App a host shows it beside a call (specification 2026-01-26 of
// https://github.com/modelcontextprotocol/ext-apps), and "runnel ui" opens it in a browser.
//
//	tools/list ─▶ _meta.ui.resourceUri ─▶ resources/read ui://runnel/task ─▶ the page, in the host's sandbox
//	the page ─ tools/call view_* ─▶ Runner, Call.Recent, Call.Start ─▶ structured content
//
// The page gets no stream: it calls view_output again and again, which waits for news. It gets no task id either, while a plain call runs:
// view_mine finds the task by the tool and the arguments of the call.
//
// Goroutines: one of a view_output that waits, which ends with the wait. It has no locks of its own.
//
//	page   the HTML that shows a task or the list of them
//	host   the program that shows the page: a host of MCP Apps, or "runnel ui"
//	news   what a page has not seen of a log: bytes after the position that it names
//
// Where things stand:
//
//	who is shown the page and its tools     rpc.Caller.ShowsApps; package tools, entry.withPage
//	a plain call becomes a task             tools.Call.Recent
//	a log becomes text                      logs.AppendText
//	what a task is to the page              view.show (task.go)
//	a wait, a search is bounded             await (output.go), view.search (search.go)
//	what the page may load: nothing         resource (resource.go)
package view
