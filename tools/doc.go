// Package tools serves tools to clients: [ListenAndServe] is all that a Go function needs to be one. It holds the methods tools/list and
// tools/call (https://modelcontextprotocol.io/specification/2025-11-25/server/tools). What kinds of tools there are beside functions,
// the packages below this one's folder know: a [Kind] says of itself what the server needs to know.
//
//	tools/call ─ callParams ─ Registry ─▶ start ─▶ tasks.Run ─ entry.run ─▶ Tool.Call
//	     │                                                                      │ Output
//	     │                              delivery ◀─ partials.Pump ◀─ log ◀──────┘
//	     ▼
//	  answer: the first of result, questions (park), too late (handOver, created)
//
// Goroutines: the one of a request waits for what there is to say first; one per run calls the tool; one per delivery gives signs
// of life, if its client asked for progress. Of a call that goes on elsewhere one tells that client that it waits for a worker. Output is
// written on the writer's (see package partials).
//
// Locks: none of this package's is taken under another. delivery.mu is taken on the writer's goroutine, so nothing is waited for under it.
// A textWriter's is held while the log takes a piece, which may wait for the client. Registry.mu is never held across a call of a tool.
//
//	call        one tools/call; it runs as a task, whatever its client is told
//	delivery    what the client hears of a call through one request
//	audience    the client of a call, over all its requests
//	spelling    the dialect that carries the output
//	park        to answer a call with its questions, and wait for the client to come back
//	hand over   to answer a call that takes too long with its task, for the fallback tools
//	fallback    the tools by which a model uses tasks through a host that has none
//	said        what a tool says of its result beside the result
//
// Where things stand:
//
//	arguments are checked              entry.check (registry.go), with package schema
//	what a version can hold            dress.go
//	a call asks for a ttl              ttl (callparams.go); package tasks decides
//	a call goes on elsewhere           Call.Detach, Call.Offer, and Take there (detached.go)
//	a call takes too long              service.patience (answer.go), service.handOver (handover.go)
//	a question reaches the client      audience.ask (asking.go); as the answer to a call: service.park (answer.go)
//	which dialect carries the output   chooseSpelling (spelling.go)
//	a lost stream goes on              mark.go, rejoin.go
//	secrets are masked                 Output.Write, hide.go, textStream.Write (package command); the end: package tasks
//	no output after the end            delivery.silence (delivery.go); the order is package tasks'
//	what a model reads of an output    package text; fit.go is for the length of a line
package tools
