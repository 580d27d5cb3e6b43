package rpc

import (
	"context"
	"fmt"
	"io"
	"time"
)

// Close ends the connection, and the server if Dial started it: it closes the server's stdin, waits, sends TERM to its
// process group, waits, sends KILL. What has been sent is written before. It returns how the server's process ended:
// nil if well, or if there is none. Requests without an answer fail with [ErrClosed].
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
	// The server closes its output when it ends; one that does not is not waited for.
	silent := c.conn.DisconnectNotify()
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

// Abandon gives up a server that does not answer: requests fail with [ErrClosed] and the reason from now on, and what still
// comes is dropped. Close is to be called all the same.
func (c *Client) Abandon(reason error) { c.endInput(reason) }
