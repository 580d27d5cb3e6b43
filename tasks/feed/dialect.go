package feed

import (
	"encoding/json"
	"fmt"

	"runnel/partials"
	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/rpc/rawjson"
)

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
