// Package model has the tools behind which a language model answers, token by token.
//
//	config.Model ─ New ─▶ Model
//	arguments ─ package inputs ─▶ conversation ─ api.request ─▶ HTTP ─▶ a provider
//	the log ◀─ answer.say ◀─ api.answer ◀─ events (package sse, or lines) ◀─┘
//	   └ the last answer ─▶ the result, with what it has used
//
// The four APIs differ in the body of a request and in the events of an answer. Each is one file, without a
// goroutine, a clock or I/O. An answer that is cut off is asked for again; what has come of it stays in the
// log. With "tools:", an answer may call tools of this runnel: each call is a task of its own, and the next
// request has its results.
//
// The providers' own Go libraries are not used. Beside a program that has net/http already, anthropic-sdk-go
// v1.84.0 takes 8 MB of the binary and 110 KB before main, openai-go v3.99.0 27 MB and 270 KB; both begin a
// request again only until its answer begins; and what is needed of them is here in 100 to 200 lines an API.
// The events of package modeltest are those of their tests.
//
// Goroutines: that of the call reads the answer; a timer ends a request that is silent for too long.
//
//	conversation   what a model is asked: the prompt, and the rounds so far
//	round          an answer that calls tools, and what came of the calls
//	attempt        one request; the next one is made if it fails in a way that may pass
//	usage          tokens and money that a call has taken
//
// Where things stand:
//
//	a request is tried again (a retry)    call.ask (ask.go), failure (failure.go)
//	how the call ends, and its result     call.result (result.go)
//	a model calls tools                   call.converse, call.runTools (rounds.go)
//	a budget ends a call                  call.reserve (budget.go), Runner.Tally (package run)
//	which files a picture may be          readBelow (pictures.go)
//	the client's own model                call.sample (sampling.go)
//	keys are masked                       Config.MakeSecrets (package config)
package model
