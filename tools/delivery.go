package tools

import (
	"encoding/json"

	"runnel/rpc/mcp"
	"runnel/tasks/feed"
	"runnel/tasks/run"
)

// delivery is what the client of a call is sent through one request.
type delivery struct {
	feed.Feed
	audience *audience
	params   json.RawMessage // of the request that made the call; nil: it was made in another way
}

// begin opens the delivery of a run, and starts its work.
func (d *delivery) begin(run *run.Run) {
	d.audience.run = run
	d.Open(run)
	run.Begin()
}

// answer returns the answer to a plain call whose run has ended: the result as the client's version knows it,
// without what was already sent, "content: []" (PR #383, after LSP's partial results: the final result is
// empty then).
func (d *delivery) answer() (any, error) {
	outcome := d.Run.Task().Outcome
	if outcome.Err != nil {
		return nil, outcome.Err
	}
	dressed := d.audience.dress(d.Caller.Version, outcome.Result)
	// Without content, dressed has the structured content as text, which was not sent.
	if d.Spelling != feed.PR383 || len(outcome.Result.Content) == 0 || !d.Told() {
		return dressed, nil
	}
	empty := *dressed
	empty.Content = []mcp.ContentBlock{}
	return &empty, nil
}
