// Package view is the server's half of the live view: the page (package page) as a resource, and the tools
// that the page calls. There are two ways to the page, both over MCP: as an MCP App, a host shows it beside a
// call (specification 2026-01-26 of https://github.com/modelcontextprotocol/ext-apps), and "runnel ui" opens
// it in a browser.
//
//	tools/list ─▶ _meta.ui.resourceUri ─▶ resources/read ui://runnel/task ─▶ the page, in the host's sandbox
//	the page ─ tools/call view_* ─▶ Runner, Call.Recent, Call.Start ─▶ structured content
//
// The page gets no stream: it calls view_output again and again, which waits for news. While a plain call
// runs, it gets no task id either: view_mine finds the task by the tool and the arguments of the call.
//
// Goroutines: one per view_output that waits, which ends with the wait. The same goes for
// view_screen. Its only lock is that of terminal.Screens, under which a screen reads its log.
//
//	page   the HTML that shows a task or the list of tasks
//	host   the program that shows the page: a host of MCP Apps, or "runnel ui"
//	news   output after the position that a page names
//
// Where things stand:
//
//	who is shown the page and its tools     rpc.Caller.ShowsApps; package tools, entry.withPage
//	a plain call becomes a task             tools.Call.Recent
//	a log becomes text                      logs.AppendText
//	what the page gets about a task         view.show (task.go)
//	a wait or a search is bounded           await (output.go), view.search (search.go)
//	the page may load nothing               resource (tools.go)
package view
