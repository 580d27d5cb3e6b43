package rpc

import (
	"context"
	"fmt"
	"io"
	"time"
)

// Close ends the connection, and stops the server if Dial started it: it writes what has been queued, closes
// the server's stdin, waits, sends TERM to its process group, waits, and sends KILL. It returns an error if
// the server's process failed or did not end. Requests without an answer fail with [ErrClosed].
func (c *Client) Close() error {
	c.closing.Do(c.close)
	if c.child == nil {
		return nil
	}
	select {
	case <-c.child.exited:
	default:
		return fmt.Errorf("the server has not ended %v after KILL", killGrace)
	}
	if s := c.child.cmd.ProcessState; s != nil && !s.Success() {
		return fmt.Errorf("the server ended with %v", s)
	}
	return nil
}

func (c *Client) close() {
	c.w.finish()
	_ = c.opt.In.Close() // also ends a Write that waits
	<-c.w.done
	if c.child != nil {
		c.child.end()
	}
	// The server closes its output when it exits. If it does not, do not wait for it.
	silent := c.conn.rpc.DisconnectNotify()
	select {
	case <-silent:
	case <-time.After(closeGrace):
	}
	if out, ok := c.opt.Out.(io.Closer); ok {
		_ = out.Close()
		<-silent
		c.incoming.wait(context.Background())
	}
}

// Abandon gives up on a server that does not answer: requests fail with [ErrClosed] and the reason, and
// whatever still arrives is dropped. Call Close as well.
func (c *Client) Abandon(reason error) { c.endInput(reason) }

// AwaitAnswers waits until the server's requests that have come are answered, or ctx ends.
func (c *Client) AwaitAnswers(ctx context.Context) { c.incoming.wait(ctx) }
