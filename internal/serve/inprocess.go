package serve

import (
	"context"
	"io"

	"runnel/rpc"
	"runnel/tasks"
	"runnel/tools/config"
	"runnel/tools/upstream"
)

// Dial connects a command to what these flags and this config serve, in process. The server goes on until close: the end of the command
// must not end it first.
func (s *Setup) Dial(ctx context.Context, o rpc.DialOptions) (client *rpc.Client, close func(), err error) {
	conf, _, err := s.LoadConfig(ctx)
	if err != nil {
		return nil, nil, err
	}
	if s.Options.From["sync-wait"] == "" {
		conf.Tasks.SyncWait = 0 // nobody here gives up on a long call
	}
	set, _, err := s.Registry(conf)
	if err != nil {
		return nil, nil, err
	}
	state, err := s.openState(conf, o.Log)
	if err != nil {
		return nil, nil, err
	}
	client, end, err := s.dialTools(ctx, o, conf, set, state)
	if err != nil {
		return nil, nil, err
	}
	return client, func() { end(); s.Notices.Close() }, nil
}

// DialTools is Dial for given tools, for a command that brings its own: nobody is told of the ends of their calls. end ends the server and the
// state, and returns when nothing of them is left.
func (s *Setup) DialTools(ctx context.Context, o rpc.DialOptions, conf *config.Config, set *upstream.Set, state tasks.State) (client *rpc.Client, end func(), err error) {
	quiet := *s
	quiet.Notices = nil
	return quiet.dialTools(ctx, o, conf, set, state)
}

func (s *Setup) dialTools(ctx context.Context, o rpc.DialOptions, conf *config.Config, set *upstream.Set, state tasks.State) (client *rpc.Client, end func(), err error) {
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	o.In, o.Out = toServer, fromServer
	inner := *s
	inner.Stdin, inner.Stdout = in, out
	inner.Options.http, inner.owners = httpOptions{}, nil
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err := inner.Connect(context.WithoutCancel(ctx), conf, set, state, o.Log)
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
