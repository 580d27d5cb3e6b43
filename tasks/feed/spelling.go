package feed

import (
	"encoding/json"
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
		return fmt.Appendf(dst, "%s,\"method\":\"notifications/tasks/status\",\"params\":%s}\n", head,
			rawjson.Encode(t))
	})
}

// progress returns the progress of the caller's token, nil if there is none.
func (o *origin) progress(c *rpc.Caller) *partials.Progress {
	if len(o.Token) == 0 {
		return nil
	}
	p := partials.NewProgress(c.Head(), o.Token, o.Task, c.Version.ProgressMessage)
	if o.relaysProgress() {
		p.Relay()
	}
	return p
}

// relaysProgress reports whether progress is another server's and passes as it is. PR #383 numbers it itself.
func (o *origin) relaysProgress() bool { return o.Relays && o.Spelling != PR383 }

// dialect returns a new dialect for the output of a task, for every spelling but ByStatus and ByResult.
// ending is called at the end of the log.
func (o *origin) dialect(c *rpc.Caller, p *partials.Progress, segments *partials.Segments,
	ending func() partials.Ending) partials.Dialect {
	switch o.Spelling {
	case SEP1905:
		return partials.NewSEP1905(c.Head(), o.Request, o.Task, segments)
	case PR383:
		d := partials.NewPR383(p, ending)
		if o.Relays {
			return d
		}
		return dressed{d, c.Version}
	case SEP2998:
		return partials.NewSEP2998(c.Head(), c.Meta.PartialResultToken)
	case SEP2679:
		return partials.NewSEP2679(c.Head(), o.Task, nil)
	default:
		return p
	}
}

// ending returns what the result has beyond the output, as a version knows it.
func (o *origin) ending(v *mcp.Version, segments *partials.Segments) (e partials.Ending) {
	ending := segments.Ending()
	switch {
	case ending == nil:
		return e
	case o.Relays:
		return *ending
	}
	for _, item := range ending.Rest {
		e.Rest = append(e.Rest, Content(v, item))
	}
	return e
}

// Content converts a content item to what a version knows. An item of an unknown type becomes a text that
// names it.
func Content(v *mcp.Version, c mcp.ContentBlock) mcp.ContentBlock {
	if !v.ContentMeta && rawjson.Member(c, "_meta") != nil {
		c = rawjson.WithMember(c, "_meta", nil)
	}
	switch kind := rawjson.StringMember(c, "type"); {
	case kind == "audio" && !v.Audio:
		return mcp.Text("[audio: protocol version " + v.Name + " cannot carry it]")
	case kind == "resource_link" && !v.ResourceLinks:
		var link struct{ Name, URI string }
		_ = json.Unmarshal(c, &link)
		return mcp.Text(fmt.Sprintf("[%s: %s]", link.Name, link.URI))
	default:
		return c
	}
}

// dressed is a dialect that converts content to what a version knows.
type dressed struct {
	partials.Dialect
	version *mcp.Version
}

func (d dressed) Encode(dst []byte, b partials.Batch) []byte {
	chunks := b.Chunks()
	for i := range chunks {
		c := &chunks[i]
		if c.Kind == partials.Item {
			c.Data = Content(d.version, c.Data)
		} else if !d.version.ContentMeta {
			c.Stream = partials.Stdout // stderr is marked in _meta
		}
	}
	as := partials.NewBatch(b.Start, chunks...)
	as.Colors = b.Colors
	return d.Dialect.Encode(dst, as)
}
