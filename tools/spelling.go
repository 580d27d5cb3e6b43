package tools

import (
	"fmt"

	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
	"runnel/tasks/run"
)

// spelling says which dialect carries the output.
type spelling uint8

const (
	bySEP1905  spelling = iota + 1 // pushed: further responses with the call's id
	byPR383                        // partial results in progress notifications
	bySEP2998                      // notifications/tools/partial_result
	bySEP2679                      // notifications/tasks/partial
	byProgress                     // the last line of output, in progress notifications
	byStatus                       // the last line of output, in status notifications
	byResult                       // in the result only
)

// chooseSpelling decides once what the client sees of a call while it runs, from its request and its
// capabilities. The first row that fits wins:
//
//	SEP-1905 streaming is the mode, and the client takes several responses   SEP-1905
//	partialResults: true beside a progress token                            PR #383
//	a partialResultToken, and the client declared partialResults            SEP-2998 (stateless era)
//	a task, and the client declared tasks.streaming.partial                  SEP-2679
//	a progress token                                                        progress, with the last line
//	a task                                                                  status, with the last line
//	else                                                                    nothing
//
// Progress that a tool reports with Output.Progress goes to every client that gave a token.
func chooseSpelling(c *rpc.Caller, handle bool, mode mcp.ResponseMode) spelling {
	token := len(c.Meta.ProgressToken) > 0
	switch {
	case mode == mcp.ModeStreaming && c.Capabilities.StreamsResponses():
		return bySEP1905
	case token && c.Meta.PartialResults && mode != mcp.ModeStreaming:
		return byPR383
	case c.Version.Stateless && len(c.Meta.PartialResultToken) > 0 && c.Capabilities.PartialResults != nil:
		return bySEP2998
	case handle && c.Capabilities.StreamsPartials() && mode != mcp.ModeStreaming:
		return bySEP2679
	case token:
		return byProgress
	case handle:
		return byStatus
	default:
		return byResult
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
