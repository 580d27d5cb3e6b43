package serve

import (
	"context"
	"io"

	"runnel/rpc"
	"runnel/rpc/mcp"
	"runnel/tasks"
	"runnel/tasks/sqlite"
	"runnel/tools/config"
	"runnel/tools/upstream"
)

// Dial connects a command to a server with these flags and this config, in process. The server runs until
// close is called, even if ctx ends before: the command must be able to end its calls.
func (s *Setup) Dial(ctx context.Context, o rpc.DialOptions) (client *rpc.Client, close func(), err error) {
	conf, _, err := s.LoadConfig(ctx)
	if err != nil {
		return nil, nil, err
	}
	if v := mcp.LookupVersion(o.Version); !conf.Overridden("tasks.syncWait") ||
		v != nil && !v.Tasks && !v.Stateless {
		// No client here gives up on a long call, and one without tasks could not follow it.
		conf.Tasks.SyncWait = 0
	}
	conf.History.Calls = 0 // who makes this call sees what came of it, and need not wait until it is stored
	set, _, err := s.Registry(conf)
	if err != nil {
		return nil, nil, err
	}
	state, err := s.openState(conf, o.Log)
	if err != nil {
		return nil, nil, err
	}
	only := conf.Tools[s.Only]
	s.Typed = only.TakesInput() && !inMemory(state)
	if dir, ok := state.(*sqlite.State); ok && s.NeedsState && only.Task != mcp.TaskForbidden {
		if err := dir.Recover(); err != nil {
			_ = state.Close() // nothing has been stored
			return nil, nil, err
		}
	}
	client, end, err := s.dialTools(ctx, o, conf, set, state)
	if err != nil {
		return nil, nil, err
	}
	return client, func() { end(); s.Notices.Close() }, nil
}

// DialTools is Dial for a command that brings its own tools and state. No notices are sent about their calls.
// end ends the server and the state, and returns when nothing of them is left.
func (s *Setup) DialTools(ctx context.Context, o rpc.DialOptions, conf *config.Config, set *upstream.Set,
	state tasks.State) (client *rpc.Client, end func(), err error) {
	quiet := *s
	quiet.Notices = nil
	return quiet.dialTools(ctx, o, conf, set, state)
}

func (s *Setup) dialTools(ctx context.Context, o rpc.DialOptions, conf *config.Config, set *upstream.Set,
	state tasks.State) (client *rpc.Client, end func(), err error) {
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	o.In, o.Out = toServer, fromServer
	inner := *s
	inner.Stdin, inner.Stdout = in, out
	inner.owners = nil
	own := *conf // it serves this client alone, even if another runnel with this file serves others
	own.HTTP = config.HTTP{}
	if !conf.Overridden("metrics") {
		own.Metrics = ""
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err := inner.Connect(context.WithoutCancel(ctx), &own, set, state, o.Log)
		if closed := state.Close(); err == nil {
			err = closed
		}
		_ = out.CloseWithError(err) // nil: EOF
		_ = in.Close()
	}()
	if client, err = rpc.Dial(ctx, o); err != nil {
		_ = toServer.Close()
		<-ended
		return nil, nil, err
	}
	return client, func() { _ = client.Close(); <-ended }, nil
}
