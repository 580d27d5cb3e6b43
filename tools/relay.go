package tools

import (
	"context"
	"encoding/json"

	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/run"
)

// Asked implements run.Client: the worker that runs the call asks something. The question is treated like
// one of a tool that runs here.
func (a *audience) Asked(q *run.Question) (send func(), err error) {
	c := a.caller()
	method := q.Request.Method
	params := q.Request.Params
	if !a.canDo(method, params) || a.handedOver(c) || len(params) > maxAsked/maxTurns {
		return nil, errCannotDo(method)
	}
	if method == "elicitation/create" && !isByURL(params) {
		var p mcp.ElicitParams
		_ = json.Unmarshal(params, &p) // missing members read as empty
		form := &Question{Message: p.Message, Schema: p.RequestedSchema}
		if err := form.fits(c); err != nil {
			return nil, err
		}
		q.Check = form.check
	}
	if c.Version.Stateless {
		return nil, nil
	}
	if !a.opens() {
		return nil, tasks.ErrEnded
	}
	return func() { go a.forward(q) }, nil
}

// forward sends a question of a worker to a client of the handshake era, until it is answered or is no longer
// open.
func (a *audience) forward(q *run.Question) {
	defer a.questions.Done()
	ctx, cancel := context.WithCancel(a.run.Context())
	defer cancel()
	go func() {
		select {
		case <-q.Closed():
		case <-a.end.Done():
		case <-ctx.Done():
		}
		cancel()
	}()
	if a.current.Load().Await(ctx) != nil {
		return
	}
	params := q.Request.Params
	if q.Request.Method == "elicitation/create" {
		params = a.related(params)
	}
	response, err := a.request(ctx, q.Request.Method, params)
	if ctx.Err() != nil {
		return
	}
	if err == nil {
		err = q.Answer(ctx, response)
	}
	if err != nil {
		q.Refuse(ctx, err)
	}
	q.Release()
}

// Progress implements run.Client: it gets the progress of the worker that runs the call.
func (a *audience) Progress(p tasks.Progress) { a.report(p, nil) }
