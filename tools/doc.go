// Package tools serves Go functions as tools to MCP clients.
//
//	count := tools.Func("count", "Counts.", func(ctx context.Context, in struct{ To int }, out *tools.Output) (*mcp.CallToolResult, error) {
//		for n := range in.To {
//			fmt.Fprintln(out, n+1) // reaches the client while the tool runs
//		}
//		return nil, nil // the result is what was written
//	}).Streams()
//	log.Fatal(tools.ListenAndServe(ctx, count))
//
// An author needs:
//
//	a tool                             [Func]; [FuncWith] if it needs its [Call], or a written entry in tools/list
//	arguments                          the fields of a struct: `json:"name,omitempty"`, `jsonschema:"what it is"`; they are checked before the call
//	output while it runs               an [Output] is an io.Writer; Output.Content for images, Output.Progress for how far it is
//	a result                           mcp.Result, mcp.ErrorResult, or nil for what was written; a plain error is for the model to read
//	a question to the user             [Call.Ask]
//	the end of the call                ctx ends when the client cancels
//	serving                            [ListenAndServe]; [Server] has a name, a state on disk, an HTTP address; [Serve] has everything
//	a test                             package toolstest
//
// The promise between versions: until version 1 any exported name may change, with an entry in CHANGELOG.md
// that says what to write instead. What is in the table above, in package rpc/mcp as far as it is the schema
// of MCP, and in package toolstest changes last, and not in a patch version. The other packages are public
// because runnel itself is made of them.
//
// How it works: the package implements tools/list and tools/call
// (https://modelcontextprotocol.io/specification/2025-11-25/server/tools). The packages in the folders below
// have the other kinds of tools; through [Kind] a tool says what the server needs to know about it.
//
//	tools/call ─ callParams ─ Registry ─▶ start ─▶ tasks.Run ─ entry.run ─▶ Tool.Call
//	     │                                                                      │ Output
//	     │                              feed.Feed ◀─ partials.Deliver ◀─ log ◀───┘
//	     ▼
//	  answer: the first of result, questions (park), too late (handOver, created)
//
// Goroutines: that of a request waits for the first thing to answer; one per run calls the tool; package feed
// has those that write the output. If a call waits for a worker, one tells its client so.
//
// Locks: none of this package's is taken under another. Output.mu is held while the log takes a piece, which
// may wait for the client. Registry.mu is never held across a call of a tool.
//
//	call        one tools/call; it runs as a task, whatever its client is told
//	delivery    all that a client is sent through one request: a Feed of package feed, and the answer
//	audience    the client of a call, over all its requests
//	park        to answer a call with its questions, and wait for the client to come back
//	hand over   to answer a call that takes too long with its task, for the fallback tools
//	fallback    the tools by which a model uses tasks through a host that has none (package fallback)
//	said        what a tool says about its result, in addition to the result
//
// Where things stand:
//
//	a call becomes a task              service.call (call.go): every call does, and decides whether its client is told; then service.start
//	arguments are checked              entry.fit (registry.go), with package schema
//	a tool's own schema is checked     Checker.Compile of package schema, at its first use; for a config's tools also CheckSchemas of package command
//	what tools/list shows              service.list, Registry.list (list.go), service.fallbackHidden (fallback.go)
//	where the eras differ              service.call (call.go), service.callStateless (answer.go), audience.go; more in packages rpc and tasks
//	what a version can hold            audience.go; content: Content of package feed
//	a call asks for a ttl              ttl (call.go); package run decides
//	a call continues elsewhere         Call.Detach, Call.Offer, and Take there (detached.go)
//	how much a model is shown          service.maxResult (options.go); the Shaper of package text cuts
//	a call takes too long              service.patience (answer.go), service.handOver (handover.go)
//	a running call gets a handle       Run.Promote of package run: service.answerSoon (answer.go), service.handOver (handover.go), service.recentOf (app.go)
//	a question reaches the client      audience.ask (ask.go); as the answer to a call: service.park (answer.go)
//	the answer to a question returns   service.resume (answer.go), parking.claim (parked.go), View.Answer of package run
//	a worker asks the client           audience.Asked (relay.go)
//	a call makes tasks of other tools  Call.MakeChild (child.go)
//	a call goes on in another process  Call.Resumes, Call.Remember, and service.resumeLeft there (resume.go)
//	a question outlives its process    Call.AskLasting (lasting.go); it is kept in a variable of the task: Run.publish of package run
//	which dialect carries the output   Choose of package feed
//	a lost stream is resumed           Resumer of package feed
//	secrets are masked                 Output.Write, Output.Content (output.go), Call.mask (outcome.go), textStream.take (package command); the end: package run
//	no output after the end            Feed.Silence of package feed; the order is package run's
//	a model uses a task                package fallback; what it is shown: package reading
//	output is shortened for a model    package text; outcome.go bounds the length of a line
package tools
