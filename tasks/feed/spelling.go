package feed

import (
	"fmt"

	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks/run"
)

// Spelling says which dialect carries the output of a call.
type Spelling uint8

const (
	SEP1905    Spelling = iota + 1 // pushed: further responses with the call's id
	PR383                          // partial results in progress notifications
	SEP2998                        // notifications/tools/partial_result
	SEP2679                        // notifications/tasks/partial
	ByProgress                     // the last line of output, in progress notifications
	ByStatus                       // the last line of output, in status notifications
	ByResult                       // in the result only
)

// Choose decides once what the client sees of a call while it runs, from its request and its capabilities.
// handle: the request is answered with a task. mode is SEP-1905's, "" without one. The first row that fits
// wins:
//
//	SEP-1905 streaming is the mode, and the client takes several responses   SEP-1905
//	partialResults: true beside a progress token                            PR #383
//	a partialResultToken, and the client declared partialResults            SEP-2998 (stateless era)
//	a task, and the client declared tasks.streaming.partial                  SEP-2679
//	a progress token                                                        progress, with the last line
//	a task                                                                  status, with the last line
//	else                                                                    nothing
//
// Progress that a tool reports goes to every client that gave a token.
func Choose(c *rpc.Caller, handle bool, mode mcp.ResponseMode) Spelling {
	token := len(c.Meta.ProgressToken) > 0
	switch {
	case mode == mcp.ModeStreaming && c.Capabilities.StreamsResponses():
		return SEP1905
	case token && c.Meta.PartialResults && mode != mcp.ModeStreaming:
		return PR383
	case c.Version.Stateless && len(c.Meta.PartialResultToken) > 0 && c.Capabilities.PartialResults != nil:
		return SEP2998
	case handle && c.Capabilities.StreamsPartials() && mode != mcp.ModeStreaming:
		return SEP2679
	case token:
		return ByProgress
	case handle:
		return ByStatus
	default:
		return ByResult
	}
}

// streaming is a dialect that announces its last line before writing it.
type streaming struct {
	partials.Dialect
	ends func()
}

func (s streaming) End(dst []byte) []byte {
	s.ends()
	return s.Dialect.End(dst)
}

// statusDialect shows the last line of output as the statusMessage of a working task: some hosts show nothing
// else. It goes with DeliverLastLine.
func statusDialect(head []byte, run *run.Run) partials.Dialect {
	return partials.EndlessDialect(func(dst []byte, b partials.Batch) []byte {
		t := run.Status(b.LastLine())
		if t.Status != mcp.TaskWorking || t.StatusMessage == "" {
			return dst
		}
		return fmt.Appendf(dst, "%s,\"method\":\"notifications/tasks/status\",\"params\":%s}\n", head, rawjson.Encode(t))
	})
}
