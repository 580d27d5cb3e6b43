package serve

import (
	"context"
	"io"

	"runnel/rpc"
	"runnel/tasks"
	"runnel/tools/config"
	"runnel/tools/upstream"
)

// ServeInProcess serves to o.In and o.Out. It goes on until its input ends: the end of the command must not end it first.
func (s *Setup) ServeInProcess(ctx context.Context, o *rpc.DialOptions) (wait func(), err error) {
	conf, _, err := s.LoadConfig(ctx)
	if err != nil {
		return nil, err
	}
	if s.Options.From["sync-wait"] == "" {
		conf.Tasks.SyncWait = 0 // nobody here gives up on a long call
	}
	set, _, err := s.Registry(conf)
	if err != nil {
		return nil, err
	}
	store, err := s.OpenStore(conf, o.Log)
	if err != nil {
		return nil, err
	}
	return s.ConnectInProcess(ctx, o, conf, set, store), nil
}

// ConnectInProcess serves a registry to o.In and o.Out, which it makes. It closes the store in the end.
func (s *Setup) ConnectInProcess(ctx context.Context, o *rpc.DialOptions, conf *config.Config, set *upstream.Set, store tasks.State) (wait func()) {
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	o.In, o.Out = toServer, fromServer
	inner := *s
	inner.Stdin, inner.Stdout = in, out
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err := inner.Connect(context.WithoutCancel(ctx), conf, set, store, o.Log)
		if closed := store.Close(); err == nil {
			err = closed
		}
		_ = out.CloseWithError(err) // nil: EOF
		_ = in.Close()
	}()
	return func() { <-ended }
}
