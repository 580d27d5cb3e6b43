// Package page is the live view that a person sees: one HTML page without dependencies, put together from the
// sources beside this file. It is a Go package only to be embedded. The page itself is plain JavaScript and
// speaks nothing but MCP.
//
//	door.js ── call(tool, arguments) ─▶ view_tasks, view_output, ... (package view)
//	   │  in an MCP App: JSON-RPC over postMessage to the host, which passes it on
//	   └─ in "runnel ui":  JSON-RPC over POST /mcp of the page's own origin, with the token of the address
//
//	main.js ─┬─▶ tasks.js      the list: all tasks in memory, the rows in sight in the document
//	         ├─▶ run.js        the tools of the config, each with a form
//	         └─▶ task.js ─┬──▶ log.js ──▶ rows.js ──▶ ansi.js   output as it comes: text ─▶ lines ─▶ rows of a window
//	                      ├──▶ terminal.js                      the screen of a terminal, and what a person types into it
//	                      ├──▶ files.js                         what the task has made
//	                      ├──▶ timeline.js                      when output came
//	                      └──▶ history.js                       how long the last runs took
//
// Output is hostile: it may try to run scripts, to forge what the page says, and to stop the browser. So
//
//   - text reaches the document as text nodes only (say, in dom.js); nothing here assigns markup;
//   - colours and weights are the only escape sequences that have an effect (ansi.js); bidirectional controls are shown as U+FFFD;
//   - a window of the log is in memory, at most 1 Mi characters, and its visible rows are in the document; the rest is fetched by position (log.js);
//   - a line is cut into pieces of 8 KiB, and into rows as wide as the window (rows.js): no line is too long.
//
// Words: a position is a number of bytes in a task's log; a line ends with a newline, or where it was cut; a
// row is a piece of a line as high as one line of text on the screen; the window is the part of the log that
// is in memory; the door passes calls to the server.
package page
