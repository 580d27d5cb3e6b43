package upstream

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"runnel/rpc"
	httpclient "runnel/rpc/http/client"
	"runnel/tools/process"
)

// dial starts or reaches the server and makes the connection.
func (l *link) dial(ctx context.Context, o rpc.DialOptions) (err error) {
	if l.config.URL != "" {
		if l.atErr == nil {
			at := l.at
			at.Hops = l.hopsAfter
			l.client, err = httpclient.Dial(ctx, at, o)
		}
		return cmp.Or(l.atErr, err)
	}
	program, err := l.Program()
	if err != nil {
		return err
	}
	process.SealInherited()
	process.TieChildren()
	mark := process.NewMark()
	o.Command = append([]string{program}, l.config.Command[1:]...)
	// Replacing runnel's own.
	o.Env = append(slices.Clip(l.env), mark, fmt.Sprintf("%s=%d", hopsVariable, l.hopsAfter()))
	o.Dir = l.dir
	o.Stderr, o.OnStart = &l.stderr, l.stderr.forget
	o.Guard = l.guard
	if l.sandbox != nil {
		o.Start, o.Guard = l.confined()
	}
	o.EndGroup = func(pgid int) { process.EndFamily(pgid, mark) }
	defer process.GuardMark(mark)() // l.guard follows
	if l.client, err = rpc.Dial(ctx, o); err != nil {
		return fmt.Errorf("cannot start: %w", err)
	}
	return nil
}

// guard makes the guard process end the server's processes if runnel is killed.
func (l *link) guard(pgid int) (release func()) {
	if err := process.Guard(pgid); err != nil {
		l.log.Warn().Err(err).Msg("a server is not guarded: it may outlive a runnel that is killed")
	}
	return func() { process.Release(pgid) }
}
